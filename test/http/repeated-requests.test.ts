import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import type { TestWorker } from '../support/sync.ts';

describe('a repeated request', () => {
  let database: TestDatabase;
  let worker: TestWorker;
  let api: TestApi;
  let organization: bigint;
  let customer: bigint;
  let secret: string;
  /** The number of queries that have reached DuckDB. */
  let queries = 0;

  const counted = (all: PurchaseEngine): PurchaseEngine => ({
    ...all,
    forSource: (source) => counted({ ...all, ...all.forSource(source) }),
    list: (...query) => {
      queries += 1;
      return all.list(...query);
    },
    get: (...query) => {
      queries += 1;
      return all.get(...query);
    },
    report: (...query) => {
      queries += 1;
      return all.report(...query);
    },
  });

  it.beforeAll(async ({ database: ownDatabase, directory, worker: ownWorker, engine }) => {
    [database, worker] = [ownDatabase, ownWorker];
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
    ({ secret } = await addKey(database.pool, organization));
    await add(100);
    await worker.syncAll();
    api = await createTestApi(database.pool, directory, {
      services: testServices(database.pool, counted(engine)),
    });
    return api.close;
  });

  const add = (cents: number) =>
    addPurchase(database.pool, organization, {
      customer_id: customer,
      purchase_value_in_cents: cents,
    });
  const queriesDuring = async (work: () => Promise<unknown>): Promise<number> => {
    const before = queries;
    await work();
    return queries - before;
  };
  const stats = '/v1/purchases/stats?group_by=status&platform=shopify';

  it('does not reach DuckDB again, has the same response and headers, and is 304 for its ETag', async () => {
    const customerPurchases = `/v1/customers/${encodeId('customer', customer)}/purchases`;
    for (const url of [stats, '/v1/purchases?limit=3', customerPurchases]) {
      const first = await api.get(url, secret);
      expect(first.statusCode).toBe(200);
      expect(
        await queriesDuring(async () => {
          const again = await api.get(url, secret);
          expect(again.body).toBe(first.body);
          for (const name of ['etag', 'x-data-as-of', 'content-type', 'content-length']) {
            expect(again.headers[name], name).toBe(first.headers[name]);
          }
          if (url !== stats) return;
          const condition = { 'if-none-match': String(first.headers.etag) };
          const unchanged = await api.get(url, secret, condition);
          expect([unchanged.statusCode, unchanged.body]).toEqual([304, '']);
          for (const name of ['etag', 'x-data-as-of']) {
            expect(unchanged.headers[name], name).toBe(first.headers[name]);
          }
        }),
      ).toBe(0);
    }
  });

  it('is the same query in another spelling', async () => {
    await api.get(stats, secret);
    const sameQuery = '/v1/purchases/stats?platform=shopify&group_by=st%61tus';
    expect(await queriesDuring(() => api.get(sameQuery, secret))).toBe(0);
    const another = '/v1/purchases/stats?group_by=status&platform=bling';
    expect(await queriesDuring(() => api.get(another, secret))).toBe(1);
    const several = '/v1/purchases/stats?status=paid,authorized';
    expect(await queriesDuring(() => api.get(several, secret))).toBe(1);
    const inAnotherOrder = '/v1/purchases/stats?status=authorized%2Cpaid';
    expect(await queriesDuring(() => api.get(inAnotherOrder, secret))).toBe(0);
  });

  it('is one query of DuckDB if many are concurrent', async () => {
    const url = '/v1/purchases/stats?group_by=day';
    const responses: { body: string }[] = [];
    const send = async () => responses.push(await api.get(url, secret));
    expect(await queriesDuring(() => Promise.all(Array.from({ length: 20 }, send)))).toBe(1);
    expect(new Set(responses.map(({ body }) => body)).size).toBe(1);
  });

  it('is a new query after a change', async () => {
    const before = (await api.get('/v1/purchases/stats', secret)).json();
    await add(23);
    await worker.syncAll();
    let after = before;
    while (after.revenue_in_cents === before.revenue_in_cents) {
      after = (await api.get('/v1/purchases/stats', secret)).json();
    }
    expect(after).toMatchObject({
      purchase_count: before.purchase_count + 1,
      revenue_in_cents: before.revenue_in_cents + 23,
    });
  });

  it('is no query after changes of other organizations, and shows a later instant', async () => {
    const other = await addOrganization(database.pool);
    const otherCustomer = await addCustomer(database.pool, other);
    await worker.syncAll();
    let shown = String((await api.get(stats, secret)).headers['x-data-as-of']);
    const changeOther = async () => {
      for (let round = 0; round < 3; round += 1) {
        await addPurchase(database.pool, other, { customer_id: otherCustomer });
        await worker.syncAll();
        const before = shown;
        while (shown === before) {
          shown = String((await api.get(stats, secret)).headers['x-data-as-of']);
        }
        expect(shown > before).toBe(true);
      }
    };
    expect(await queriesDuring(changeOther)).toBe(0);
  });

  it("never has another organization's response", async () => {
    const other = await addOrganization(database.pool);
    await worker.syncAll();
    const { secret: otherSecret } = await addKey(database.pool, other);
    expect((await api.get('/v1/purchases/stats', secret)).json().purchase_count).toBeGreaterThan(0);
    expect((await api.get('/v1/purchases/stats', otherSecret)).json().purchase_count).toBe(0);
    const customerPurchases = `/v1/customers/${encodeId('customer', customer)}/purchases`;
    expect((await api.get(customerPurchases, secret)).statusCode).toBe(200);
    expect((await api.get(customerPurchases, otherSecret)).statusCode).toBe(404);
  });

  it('for a deleted customer is not served from the cache', async () => {
    const gone = await addCustomer(database.pool, organization);
    const url = `/v1/customers/${encodeId('customer', gone)}/purchases`;
    expect((await api.get(url, secret)).statusCode).toBe(200);
    await database.pool.query('delete from customers where id = $1', [gone]);
    expect((await api.get(url, secret)).statusCode).toBe(404);
  });
});
