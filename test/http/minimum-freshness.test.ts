import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { formatInstant, parseInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { publishedInstant } from '../support/published.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { listenAndConnect } from '../support/sockets.ts';
import { createTestWorker, follow, type TestWorker } from '../support/sync.ts';
import { recordedLog } from './recorded-log.ts';

const stats = '/v1/purchases/stats';
const exported = '/v1/purchases/export?format=ndjson';

describe('a response with X-Min-Data-As-Of', () => {
  const { log, lines } = recordedLog();
  let database: TestDatabase;
  let folder: string;
  let api: TestApi;
  let shortWaitApi: TestApi;
  let shop: Shop;

  type Shop = { readonly id: bigint; readonly customer: bigint; readonly secret: string };
  const addShop = async (): Promise<Shop> => {
    const id = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, id);
    const { secret } = await addKey(database.pool, id);
    await addPurchase(database.pool, id, { customer_id: customer });
    return { id, customer, secret };
  };
  const buy = ({ id, customer }: Shop, cents = 100) =>
    addPurchase(database.pool, id, { customer_id: customer, purchase_value_in_cents: cents });
  /** The time of Postgres, which is after every commit so far. */
  const now = async (): Promise<string> => {
    const { rows } = await database.pool.query<{ now: bigint }>(
      `select ${microsecondsOf('clock_timestamp()')} as now`,
    );
    return formatInstant(rows[0]?.now ?? 0n);
  };
  const getFresh = (url: string, { secret }: Shop, asOf: string, from = api) =>
    from.get(url, secret, { 'x-min-data-as-of': asOf });
  const total = (cents: number) => ({ revenue_in_cents: cents });

  const published = ({ id }: Shop) => publishedFiles(organizationDirectory(folder, id));
  const untilPublished = async (of: Shop) => {
    while (published(of) === null) await sleep(10);
  };

  /** Runs `work` beside a worker that follows the changes, after it has published `shop`. */
  const whileFollowing = async (work: (worker: TestWorker) => Promise<void>) => {
    const worker = await createTestWorker(database.pool, folder);
    const stop = follow(worker);
    try {
      await untilPublished(shop);
      await work(worker);
    } finally {
      await stop();
      await worker.close();
    }
  };

  it.beforeAll(async ({ database: ownDatabase, directory }) => {
    [database, folder] = [ownDatabase, directory];
    shop = await addShop();
    api = await createTestApi(database.pool, folder, { freshnessWaitMs: 60_000, log });
    shortWaitApi = await createTestApi(database.pool, folder, { freshnessWaitMs: 300 });
    return async () => {
      await api.close();
      await shortWaitApi.close();
    };
  });

  it('comes from Postgres at once while nothing is published', async () => {
    const asOf = await now();
    const response = await getFresh(stats, shop, asOf, shortWaitApi);
    expect([response.statusCode, response.json()]).toMatchObject([200, total(100)]);
    expect(String(response.headers['x-data-as-of']) >= asOf).toBe(true);
  });

  it('succeeds if the data have not changed, because their instant advances', async () => {
    await whileFollowing(async () => {
      const first = await getFresh(stats, shop, await now());
      const asOf = await now();
      const second = await getFresh(stats, shop, asOf);
      expect(second.statusCode).toBe(200);
      expect(second.body).toBe(first.body);
      expect(second.headers.etag).toBe(first.headers.etag);
      expect(String(second.headers['x-data-as-of']) >= asOf).toBe(true);
      const unchanged = await api.get(stats, shop.secret, {
        'x-min-data-as-of': await now(),
        'if-none-match': String(first.headers.etag),
      });
      expect(unchanged.statusCode).toBe(304);
      // The instant also advances for requests without the header, and for cached responses.
      const until = await now();
      for (let shown = ''; shown < until; await sleep(10)) {
        shown = String((await api.get(stats, shop.secret)).headers['x-data-as-of']);
      }
    });
  });

  it('is 409 after the maximum wait if no worker runs, with the instant of the data', async () => {
    await whileFollowing(async () => {
      expect((await getFresh(stats, shop, await now())).statusCode).toBe(200);
    });
    const shown = formatInstant(publishedInstant(folder, shop.id));
    const response = () => shortWaitApi.get(stats, shop.secret);
    while ((await response()).headers['x-data-as-of'] !== shown) await sleep(10);
    await buy(shop);
    const asOf = await now();
    const customerPurchases = `/v1/customers/${encodeId('customer', shop.customer)}/purchases`;
    const pages = ['/v1/purchases', '/v1/purchases/pur_3vW8kQmZ', customerPurchases];
    for (const url of [stats, ...pages, exported]) {
      const refused = await getFresh(url, shop, asOf, shortWaitApi);
      expect(refused.statusCode).toBe(409);
      expect(refused.headers['x-data-as-of']).toBe(shown);
      expect(refused.json().error).toMatchObject({
        type: 'conflict',
        param: 'X-Min-Data-As-Of',
        message: expect.stringContaining(`${shown} and did not become as fresh as ${asOf}`),
      });
    }
    // A request for the instant of the present data gets them.
    expect((await getFresh(stats, shop, shown, shortWaitApi)).statusCode).toBe(200);
  });

  it('waits for an instant in the near future, and is 409 for a distant one', {
    tags: ['slow'],
  }, async () => {
    await whileFollowing(async () => {
      const inTwoSeconds = (parseInstant(await now(), 'up') ?? 0n) + 2_000_000n;
      expect((await getFresh(stats, shop, formatInstant(inTwoSeconds))).statusCode).toBe(200);
      expect((await getFresh(stats, shop, '9999-01-01T00:00:00Z', shortWaitApi)).statusCode).toBe(
        409,
      );
      const unpublished = await addShop();
      expect(
        (await getFresh(stats, unpublished, '9999-01-01T00:00:00Z', shortWaitApi)).statusCode,
      ).toBe(409);
    });
  });

  it.each([['yesterday'], [''], ['2026-02-30T00:00:00Z'], ['1700000000']])(
    'is 422 for %o, which is no instant',
    async (asOf) => {
      const response = await getFresh(stats, shop, asOf);
      expect(response.statusCode).toBe(422);
      expect(response.json().error).toMatchObject({
        type: 'validation_error',
        param: 'X-Min-Data-As-Of',
      });
    },
  );

  it('accepts an instant with an offset', async () => {
    expect((await getFresh(stats, shop, '2001-01-01T00:00:00-03:00')).statusCode).toBe(200);
  });

  it('blocks no other request, and ends at a client disconnect', async () => {
    const client = await listenAndConnect(api.app);
    const future = '9999-01-01T00:00:00Z';
    const request =
      `GET ${stats} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.secret}\r\n` +
      `X-Min-Data-As-Of: ${future}\r\n\r\n`;
    const waiting = Array.from({ length: 12 }, () => client.openSocket(request));
    const plain = {
      method: 'GET',
      url: stats,
      headers: { authorization: `Bearer ${shop.secret}` },
    };
    expect((await client.send(plain)).status).toBe(200);
    const repeated = { 'x-min-data-as-of': [future, future] };
    const refused = await client.send({ ...plain, headers: { ...plain.headers, ...repeated } });
    expect([refused.status, JSON.parse(refused.body).error.param]).toEqual([
      422,
      'X-Min-Data-As-Of',
    ]);
    for (const socket of waiting) socket.destroy();
    const left = () => lines.filter((line) => line.includes('client disconnected'));
    while (left().length < waiting.length) await sleep(10);
    client.close();
  });

  it('is 409 at once if the service stops', async () => {
    const stopping = await createTestApi(database.pool, folder, { freshnessWaitMs: 60_000 });
    const { forSource } = stopping.purchases;
    const waiting = new Promise<void>((resolve) => {
      stopping.purchases.forSource = (source) => {
        const reader = forSource(source);
        const waitUntilFresh: typeof reader.waitUntilFresh = (...wait) => {
          resolve();
          return reader.waitUntilFresh(...wait);
        };
        return { ...reader, waitUntilFresh };
      };
    });
    const response = getFresh(stats, shop, '9999-01-01T00:00:00Z', stopping);
    await waiting;
    await stopping.app.close();
    expect((await response).statusCode).toBe(409);
    await stopping.purchases.close();
  });
});
