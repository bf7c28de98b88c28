import fc from 'fast-check';
import sql from 'sql-template-tag';
import { describe, expect, vi } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { type ClickHouseOptions, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { createClickHouseEngine } from '../../src/engines/clickhouse/engine.ts';
import { table } from '../../src/engines/clickhouse/schema.ts';
import { createFallbackEngine } from '../../src/engines/fallback-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { recordedLog } from '../http/recorded-log.ts';
import { expectRefusal } from '../http/refusal.ts';
import { createTestApi } from '../support/api.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { scraperOf } from '../support/metrics.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { checkedFetch } from '../support/sockets.ts';
import { createTcpProxy } from '../support/tcp-proxy.ts';
import { createClickHouseWorker, createTestClickHouseEngine } from './database.ts';
import { clickHouseTest } from './fixtures.ts';

/** An API over ClickHouse, possibly through a proxy, and over Postgres without a generation. */
const it = clickHouseTest
  .extend('purchaseId', { scope: 'file' }, async ({ database, shop, server, directory }) => {
    const { organizationId } = shop;
    const customers = [
      await addCustomer(database.pool, organizationId),
      await addCustomer(database.pool, organizationId),
    ];
    const worker = await createClickHouseWorker(server.clickhouse, database.pool, directory);
    const ids: bigint[] = [];
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 60, seed: 5 })) {
      ids.push(await addPurchase(database.pool, organizationId, values));
    }
    await worker.once([organizationId]);
    // So there are rows of the load and of changes.
    await database.pool.query('update purchases set currency = $1 where id % 2 = 0', ['USD']);
    await worker.once([organizationId]).finally(() => worker.close());
    return ids[0] as bigint;
  })
  .extend('tcpProxy', { scope: 'file' }, async ({ server }, { onCleanup }) => {
    const proxy = await createTcpProxy(server.options.url);
    onCleanup(proxy.close);
    return proxy;
  })
  .extend('getFrom', async ({ database, directory, shop }, { onCleanup }) => {
    const closing: (() => Promise<void>)[] = [];
    onCleanup(async () => {
      for (const close of closing) await close();
    });
    /** Starts an API over this server, and sends requests to it. */
    return async (options: ClickHouseOptions) => {
      const { log, lines } = recordedLog();
      const clickhouse = createClickHouseEngine(openClickHouse(options), {
        ...{ concurrency: 3, timeoutMs: options.timeoutMs },
        ...{ queueLimit: 10, queueLimitPerClient: 10 },
      });
      const purchases = createFallbackEngine(clickhouse, createPostgresEngine(database.pool));
      const services = testServices(database.pool, purchases);
      const api = await createTestApi(database.pool, directory, {
        ...{ log, services, responseCacheBytes: 0 },
        findStoreProblem: clickhouse.findProblem,
      });
      closing.push(api.close, purchases.close);
      return { get: (url: string) => api.get(url, shop.secret), lines };
    };
  });

const routes = (purchaseId: bigint) => [
  '/v1/purchases?limit=100',
  `/v1/purchases/${encodeId('purchase', purchaseId)}`,
  '/v1/purchases/stats?group_by=day&timezone=America/Sao_Paulo',
  '/v1/purchases/stats?group_by=utm_source',
  '/v1/purchases/export?format=ndjson',
];

describe('the API over ClickHouse', () => {
  it.for(['refuse', 'discard'] as const)(
    'responds with an internal error in time while the server does %s, and everything else goes on',
    async (mode, { getFrom, server, tcpProxy, purchaseId }) => {
      tcpProxy.mode = mode;
      const timeoutMs = mode === 'discard' ? 200 : 30_000;
      const through = await getFrom({ ...server.options, url: tcpProxy.url, timeoutMs });
      for (const route of routes(purchaseId)) {
        const response = await through.get(route);
        expectRefusal(response, 'internal_error');
        expect(response.headers['retry-after']).toBe('1');
      }
      for (const route of ['/v1/customers', '/v1/me', '/healthz']) {
        expect((await through.get(route)).statusCode).toBe(200);
      }
      const ready = await through.get('/readyz');
      expect([ready.statusCode, ready.json()]).toEqual([
        503,
        { status: 'unavailable', problem: 'ClickHouse does not respond' },
      ]);
      expect(through.lines.join('')).toMatch(/ClickHouse(: socket hang up| did not respond)/);
    },
  );

  it('serves purchases again once the server is back', async ({ getFrom, server, tcpProxy }) => {
    tcpProxy.mode = 'refuse';
    const through = await getFrom({ ...server.options, url: tcpProxy.url });
    expect((await through.get('/v1/purchases')).statusCode).toBe(500);
    expect((await through.get('/readyz')).statusCode).toBe(503);
    tcpProxy.mode = 'forward';
    expect((await through.get('/readyz')).statusCode).toBe(200);
    const direct = await getFrom(server.options);
    expect((await through.get('/v1/purchases')).body).toBe(
      (await direct.get('/v1/purchases')).body,
    );
  });

  it('is not ready while its database does not exist, and ready without tables', async ({
    getFrom,
    server,
  }) => {
    const without = await getFrom({ ...server.options, database: 'missing' });
    const problem = 'ClickHouse refuses queries: UNKNOWN_DATABASE';
    expect((await without.get('/readyz')).json()).toEqual({ status: 'unavailable', problem });
    const empty = await getFrom({ ...server.options, database: 'default' });
    expect((await empty.get('/readyz')).statusCode).toBe(200);
  });

  it('responds with an internal error if a query needs too much memory', async ({
    getFrom,
    server,
    purchaseId,
  }) => {
    const settings = { max_memory_usage: '1' };
    const { get, lines } = await getFrom({ ...server.options, settings });
    for (const route of routes(purchaseId)) {
      const response = await get(route);
      expectRefusal(response, 'internal_error');
      expect(response.headers['retry-after']).toBe('1');
    }
    expect(lines.join('')).toMatch(/ClickHouse: .*memory limit exceeded/i);
  });

  it('cancels the query of a client that disconnects', async ({ server, tcpProxy, shop }) => {
    tcpProxy.mode = 'discard';
    const engine = createTestClickHouseEngine({ ...server.options, url: tcpProxy.url });
    const discarded = tcpProxy.discarded();
    const leave = new AbortController();
    const query = readPurchaseStats(
      engine,
      shop.organizationId,
      { filters: {}, groupLimit: 1 },
      leave.signal,
    );
    const { request, closed } = await discarded;
    expect(request).toContain('cancel_http_readonly_queries_on_client_close=1');
    expect(request).toContain('readonly=2');
    const reason = new Error('the client disconnected');
    leave.abort(reason);
    await expect(query).rejects.toBe(reason);
    await closed;
    tcpProxy.mode = 'forward';
    await engine.close();
  });

  it('does not show rows that nothing published names', async ({
    getFrom,
    server,
    clickhouse,
    shop,
    purchaseId,
  }) => {
    const { get } = await getFrom(server.options);
    const read = async () => {
      const responses = await Promise.all(routes(purchaseId).map((route) => get(route)));
      expect(responses.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200, 200, 200]);
      return responses.map(({ body }) => body.split('\n').sort());
    };
    const before = await read();
    const ofOrganization = sql`where organization_id = ${shop.organizationId}`;
    const { purchase, purchase_change: change } = table;
    // Half of a batch: of the present writer, and of another.
    await clickhouse.run(sql`
      insert into ${change}
      select * replace(tick + 1000 as tick) from ${change} ${ofOrganization} and sign = 1`);
    await clickhouse.run(sql`
      insert into ${change} select * replace('another' as writer) from ${change} ${ofOrganization}`);
    // Half of a load.
    await clickhouse.run(sql`
      insert into ${purchase}
      select * replace('another' as load_id) from ${purchase} ${ofOrganization}`);
    expect(await read()).toEqual(before);
    await clickhouse.run(sql`optimize table ${change} final`);
    expect(await read()).toEqual(before);
  });

  it('serves an organization from Postgres until a generation exists', async ({
    program,
    server,
    database,
    directory,
    newShop,
    newCustomerId,
  }) => {
    await addPurchase(database.pool, newShop.organizationId, { customer_id: newCustomerId });
    const api = program('src/commands/api.ts', [], server.environment);
    const [, url] = await api.printed(/Listening on (http[^\s"]+)/);
    const countPurchases = async () => {
      const headers = { authorization: `Bearer ${newShop.secret}` };
      const response = await checkedFetch(`${url}/v1/purchases/stats`, { headers });
      return ((await response.json()) as { purchase_count: number }).purchase_count;
    };
    expect(await countPurchases()).toBe(1);
    const worker = await createClickHouseWorker(server.clickhouse, database.pool, directory);
    await worker.once([newShop.organizationId]).finally(() => worker.close());
    await database.pool.query('delete from purchases where organization_id = $1', [
      newShop.organizationId,
    ]);
    // Postgres has none any more.
    expect(await countPurchases()).toBe(1);
    await api.end('SIGTERM');
  });

  it('is not ready, and its metrics show why, while purchases are older than allowed', async ({
    program,
    server,
    database,
    directory,
    newShop: { organizationId, secret },
    newCustomerId,
  }) => {
    const worker = await createClickHouseWorker(server.clickhouse, database.pool, directory);
    await worker.once([organizationId]).finally(() => worker.close());
    const api = program('src/commands/api.ts', [], {
      ...server.environment,
      DATA_DIR: directory,
      METRICS_LISTEN: '127.0.0.1:0',
      READY_MAX_LAG_SECONDS: '3',
    });
    const [, url] = await api.printed(/Listening on (http[^\s"]+)/);
    const { scrape } = await scraperOf(api);
    expect((await checkedFetch(`${url}/readyz`)).status).toBe(200);
    expect((await scrape()).value('crm_data_age_seconds')).toBeUndefined();
    const headers = { authorization: `Bearer ${secret}` };
    await vi.waitFor(async () => {
      expect((await checkedFetch(`${url}/v1/purchases`, { headers })).status).toBe(200);
      const ready = await checkedFetch(`${url}/readyz`);
      expect([ready.status, await ready.text()]).toEqual([
        503,
        expect.stringContaining('READY_MAX_LAG_SECONDS allows 3 s'),
      ]);
    }, 30_000);
    expect((await scrape()).value('crm_data_age_seconds')).toBeGreaterThan(3);
    const following = await createClickHouseWorker(server.clickhouse, database.pool, directory);
    await vi.waitFor(async () => {
      await addPurchase(database.pool, organizationId, { customer_id: newCustomerId });
      await following.once([organizationId]);
      expect((await checkedFetch(`${url}/v1/purchases`, { headers })).status).toBe(200);
      expect((await checkedFetch(`${url}/readyz`)).status).toBe(200);
    }, 30_000);
    await following.close();
    await api.end('SIGTERM');
  });

  it('logs no password of the server', async ({ program, newShop: { secret } }) => {
    const api = program('src/commands/api.ts', [], {
      PURCHASES_ENGINE: 'clickhouse',
      CLICKHOUSE_URL: 'http://reader:hidden-word@127.0.0.1:1',
    });
    const [, url] = await api.printed(/Listening on (http[^\s"]+)/);
    const headers = { authorization: `Bearer ${secret}` };
    expect((await checkedFetch(`${url}/v1/purchases`, { headers })).status).toBe(500);
    await vi.waitFor(() => expect(api.output()).toContain('ECONNREFUSED'));
    expect(api.output()).not.toContain('hidden-word');
    await api.end('SIGTERM');
  });
});
