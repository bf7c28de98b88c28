import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { createPostgresQueryPool } from '../../src/postgres/connection/query-pool.ts';
import { createTurnQueue } from '../../src/queue/turn-queue.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { testServices } from '../support/services.ts';
import { expectRefusal } from './refusal.ts';

describe('a key whose queries exceed the queue limit', () => {
  let engine: PurchaseEngine;
  let api: TestApi;
  let busyKey: string;
  let otherKey: string;
  /** The number of queries that have reached the gate. */
  let arrived: number;
  /** Holds queries until `awaited` of them have arrived, and then passes all to DuckDB at once. */
  let gate: { readonly awaited: number; readonly open: () => void; readonly opened: Promise<void> };

  it.beforeAll(async ({ database, directory, shop, otherShop, worker }) => {
    ({ secret: busyKey } = shop);
    ({ secret: otherKey } = otherShop);
    await worker.syncAll();
    engine = await createTestDuckDBEngine(directory, {
      concurrency: 1,
      queueLimit: 3,
      queueLimitPerClient: 2,
    });
    const gated: PurchaseEngine = {
      ...engine,
      forSource: () => gated,
      report: async (...query) => {
        arrived += 1;
        if (arrived === gate.awaited) gate.open();
        await gate.opened;
        return engine.report(...query);
      },
    };
    api = await createTestApi(database.pool, directory, {
      services: testServices(database.pool, gated),
    });
    return async () => {
      await api.close();
      await engine.close();
    };
  });

  const closeGate = (awaited: number) => {
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    gate = { awaited, open, opened };
    arrived = 0;
  };
  let sent = 0;
  /** Sends a query that is not in the cache. */
  const getUncached = (secret: string) => {
    sent += 1;
    return api.get(`/v1/purchases/stats?min_value_in_cents=${sent}`, secret);
  };

  it('is refused with 429 and Retry-After, and the key of another organization is not', async () => {
    closeGate(7);
    const flood = Array.from({ length: 6 }, () => getUncached(busyKey));
    const other = getUncached(otherKey);
    const responses = await Promise.all(flood);
    // One query runs, and two wait in the queue.
    expect(responses.filter(({ statusCode }) => statusCode === 200)).toHaveLength(3);
    const refused = responses.filter(({ statusCode }) => statusCode !== 200);
    expect(refused).toHaveLength(3);
    for (const response of refused) {
      expect(expectRefusal(response, 'rate_limited').retry_after).toBe(1);
      expect(response.headers['retry-after']).toBe('1');
      expect(response.headers).toHaveProperty('x-ratelimit-remaining');
    }
    expect((await other).statusCode).toBe(200);
  });

  it('is served again once the queue has space', async () => {
    closeGate(1);
    expect((await getUncached(busyKey)).statusCode).toBe(200);
  });
});

describe('a key whose queries wait for Postgres', () => {
  it('leaves one of two connections to other organizations', async ({
    database,
    newDirectory,
    newShop,
    otherShop,
  }) => {
    const applicationName = 'fair queue';
    const pool = createPool(database.url, { max: 2, applicationName });
    const limits = { queueLimit: 5, queueLimitPerClient: 3, timeoutMs: 60_000 };
    const engine = createPostgresEngine(pool, { concurrency: 2, ...limits });
    const api = await createTestApi(database.pool, newDirectory, {
      services: testServices(database.pool, engine),
    });
    const getStats = (secret: string) => api.get('/v1/purchases/stats', secret);
    const untilLocked = async (count: number) => {
      const waiting = `select from pg_stat_activity
        where application_name = $1 and wait_event_type = 'Lock'`;
      while ((await database.pool.query(waiting, [applicationName])).rowCount !== count) {
        await sleep(5);
      }
    };
    const unlock = await lockTables(database.pool, 'purchases');
    const flood = Array.from({ length: 4 }, () => getStats(newShop.secret));
    await untilLocked(1);
    while (engine.queries.state().waiting < limits.queueLimitPerClient) await sleep(5);
    expectRefusal(await getStats(newShop.secret), 'rate_limited');
    const series = api.get('/v1/purchases/timeseries?interval=day', otherShop.secret);
    await untilLocked(2);
    await unlock();
    for (const response of [series, ...flood]) expect((await response).statusCode).toBe(200);
    await api.close();
    await engine.close();
    await pool.end();
  });
});

describe('a key whose lists wait for Postgres', () => {
  it('leaves connections to other organizations, and no request after a disconnect', async ({
    database,
    newDirectory,
    newShop,
    otherShop,
    onTestFinished,
  }) => {
    const lists = createPool(database.url, { max: 4, applicationName: 'lists' });
    const limits = { queueLimit: 20, queueLimitPerClient: 10, timeoutMs: 60_000 };
    const postgres = createPostgresQueryPool(lists, {
      ...{ concurrency: 4, concurrencyPerOrganization: 1 },
      ...limits,
    });
    const services = testServices(database.pool, createPostgresEngine(database.pool));
    const api = await createTestApi(database.pool, newDirectory, {
      services: { ...services, postgres },
    });
    const unlock = await lockTables(database.pool, 'customers');
    onTestFinished(async () => {
      await unlock();
      await api.close();
      await lists.end();
    });
    const client = new AbortController();
    const paths = ['/v1/customers?q=silva', '/v1/customers/cus_mBxLDNpBEZ6W', '/v1/customers'];
    const flood = paths.map((url) =>
      api.app
        .inject({
          url,
          headers: { authorization: `Bearer ${newShop.secret}` },
          signal: client.signal,
        })
        .catch((error: Error) => error.name),
    );
    const until = async (state: { running: number; waiting: number }) => {
      while (!isDeepStrictEqual(postgres.state(), state)) await sleep(5);
    };
    await until({ running: 1, waiting: 2 });
    for (const path of ['/v1/tags', '/v1/segments', '/v1/flows', '/v1/email-campaigns']) {
      expect((await api.get(path, otherShop.secret)).statusCode).toBe(200);
    }
    client.abort();
    await until({ running: 0, waiting: 0 });
    expect(await Promise.all(flood)).toEqual(paths.map(() => 'AbortError'));
  });

  it('is refused with 429 beyond the queue limit', async ({
    database,
    newDirectory,
    newShop: { secret },
    onTestFinished,
  }) => {
    const limits = { queueLimit: 2, queueLimitPerClient: 1, timeoutMs: 60_000 };
    const postgres = createPostgresQueryPool(database.pool, { concurrency: 1, ...limits });
    const services = testServices(database.pool, createPostgresEngine(database.pool));
    const api = await createTestApi(database.pool, newDirectory, {
      services: { ...services, postgres },
    });
    const unlock = await lockTables(database.pool, 'tags');
    onTestFinished(() => api.close());
    const [first, second, third] = ['running', 'waiting', 'refused'].map(() =>
      api.get('/v1/tags', secret),
    );
    const refused = await Promise.race([first, second, third]);
    expect(expectRefusal(refused as LightMyRequestResponse, 'rate_limited').retry_after).toBe(1);
    await unlock();
    const statuses = [first, second, third].map(async (response) => (await response)?.statusCode);
    expect((await Promise.all(statuses)).sort()).toEqual([200, 200, 429]);
  });
});

describe('a key whose checks wait for Postgres', () => {
  it('takes turns with the checks of other keys', async ({
    database,
    newDirectory,
    newShop,
    otherShop,
  }) => {
    const keyDatabase = createPool(database.url, { max: 1, applicationName: 'keys' });
    const keyTurns = createTurnQueue(1);
    const api = await createTestApi(database.pool, newDirectory, {
      ...{ keyDatabase, keyTurns },
      // Each request then has a check of its own.
      rateLimitStore: 'postgres',
    });
    const unlock = await lockTables(database.pool, 'organizations');
    const responded: string[] = [];
    const get = async (name: string, secret: string) => {
      expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
      responded.push(name);
    };
    const requests = [
      ...Array.from({ length: 20 }, () => get('busy', newShop.secret)),
      get('other', otherShop.secret),
    ];
    while (keyTurns.size < requests.length - 1) await sleep(5);
    await unlock();
    await Promise.all(requests);
    expect(responded.indexOf('other')).toBeLessThan(4);
    await api.close();
    await keyDatabase.end();
  });
});

describe('a query that takes longer than QUERY_TIMEOUT_MS', () => {
  it('is refused, whether it runs or waits, also a list behind a locked table', async ({
    database,
    newDirectory,
    newShop: { secret },
    onTestFinished,
  }) => {
    const timeoutMs = 500;
    const pool = createPool(database.url, {
      max: 4,
      applicationName: 'slow queries',
      statementTimeoutMs: timeoutMs,
    });
    const limits = { queueLimit: 5, queueLimitPerClient: 5, timeoutMs };
    const engine = createPostgresEngine(pool, { concurrency: 1, ...limits });
    const api = await createTestApi(database.pool, newDirectory, {
      services: testServices(pool, engine),
    });
    const unlock = await lockTables(database.pool, 'purchases, tags');
    onTestFinished(async () => {
      await unlock();
      await api.close();
      await engine.close();
      await pool.end();
    });
    const paths = ['/v1/purchases/stats', '/v1/purchases?limit=1', '/v1/tags'];
    for (const response of await Promise.all(paths.map((path) => api.get(path, secret)))) {
      expectRefusal(response, 'rate_limited');
      expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
      expect(response.json().error.message).toMatch(/took too long|in the queue/);
    }
  });
});
