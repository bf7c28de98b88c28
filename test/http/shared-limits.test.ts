import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, vi } from 'vitest';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { revokeApiKey } from '../../src/postgres/keys/api-keys.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

describe('checking and counting a key', () => {
  let pool: Database;
  /** The statements that the API has sent to Postgres. Each takes one round trip. */
  let statements: string[];
  let key: { id: bigint; secret: string };
  const apis: TestApi[] = [];

  const it = test
    .extend('start', ({ directory }) => async (options: Parameters<typeof createTestApi>[2]) => {
      const api = await createTestApi(pool, directory, options);
      apis.push(api);
      statements.splice(0);
      return api;
    })
    .extend('counts', ({ database }) => async () => {
      const { rows } = await database.pool.query(
        'select key, points from rate_limits order by key',
      );
      return rows;
    });

  it.beforeEach(async ({ database }) => {
    await database.pool.query('delete from rate_limits');
    key = await addKey(database.pool, await addOrganization(database.pool));
    pool = createPool(database.url, { max: 5, applicationName: 'counted' });
    statements = [];
    pool.on('connect', (client) => {
      const query = client.query.bind(client) as (...given: unknown[]) => unknown;
      client.query = ((...given: [{ text?: string } | string, ...unknown[]]) => {
        statements.push(typeof given[0] === 'string' ? given[0] : String(given[0].text));
        return query(...given);
      }) as typeof client.query;
    });
  });
  afterEach(async () => {
    vi.useRealTimers();
    for (const api of apis.splice(0)) await api.close();
    await pool.end();
  });

  it.for(['memory', 'postgres'] as const)(
    'takes one round trip if counts are kept in %s',
    async (rateLimitStore, { database, start }) => {
      const api = await start({ rateLimitStore, rateLimitPerMinute: 3 });
      // A connection's first key check also computes which database it is connected to.
      const first = await addKey(database.pool, await addOrganization(database.pool));
      expect((await api.get('/v1/me', first.secret)).statusCode).toBe(200);
      statements.length = 0;
      for (const status of [200, 200, 200, 429, 429]) {
        expect((await api.get('/v1/me', key.secret)).statusCode).toBe(status);
      }
      expect(statements).toHaveLength(5);
      // A malformed key is not looked up.
      await api.get('/v1/me', 'crm_live_wrong');
      expect(statements.filter((text) => text.includes('api_keys'))).toHaveLength(5);
    },
  );

  it('counts nothing for a key that is refused', async ({ database, start, counts }) => {
    const api = await start({ rateLimitStore: 'postgres' });
    await api.get('/v1/me', key.secret);
    const deleted = await addKey(database.pool, await addOrganization(database.pool));
    await database.pool.query('delete from api_keys where id = $1', [deleted.id]);
    await revokeApiKey(database.pool, key.id);
    for (const { secret } of [key, deleted]) {
      expectRefusal(await api.get('/v1/me', secret), 'authentication_error');
    }
    expect(await counts()).toEqual([
      { key: 'failed keys:127.0.0.1', points: 2 },
      { key: `requests:${key.id}`, points: 1 },
    ]);
  });

  it('admits exactly the limit of concurrent requests to several processes', async ({
    start,
    counts,
  }) => {
    const options = { rateLimitStore: 'postgres', rateLimitPerMinute: 20 } as const;
    const several = [await start(options), await start(options), await start(options)];
    const responses = await Promise.all(
      Array.from({ length: 60 }, (_, index) => several[index % 3]?.get('/v1/me', key.secret)),
    );
    const passed = responses.filter((response) => response?.statusCode === 200);
    const remaining = passed.map((response) => Number(response?.headers['x-ratelimit-remaining']));
    expect(remaining.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, left) => left));
    const resets = responses.map((response) => response?.headers['x-ratelimit-reset']);
    expect(new Set(resets).size).toBe(1);
    expect(await counts()).toEqual([{ key: `requests:${key.id}`, points: 60 }]);
  });

  it('goes by the clock of Postgres, not of the machines', async ({ start }) => {
    const options = { rateLimitPerMinute: 1, failedKeysPerMinute: 1 } as const;
    const api = await start({ rateLimitStore: 'postgres', ...options });
    const twoHoursMs = 7_200_000;
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + twoHoursMs });
    expect((await api.get('/v1/me', key.secret)).statusCode).toBe(200);
    expectRefusal(await api.get('/v1/me', 'crm_live_wrong'), 'authentication_error');
    vi.setSystemTime(Date.now() - 2 * twoHoursMs);
    for (const secret of [key.secret, 'crm_live_wrong']) {
      const refused = expectRefusal(await api.get('/v1/me', secret), 'rate_limited');
      expect(refused.retry_after).toBeLessThanOrEqual(60);
    }
  });

  it.for([
    ['has ended', -1],
    ['ends in an hour, by a clock that went back', 3_600_000],
  ] as const)('begins anew if the window %s', async ([_, restMs], { database, start }) => {
    await database.pool.query(
      `insert into rate_limits values ($1, 9, extract(epoch from now()) * 1000 + $2)`,
      [`requests:${key.id}`, restMs],
    );
    const api = await start({ rateLimitStore: 'postgres', rateLimitPerMinute: 3 });
    const { headers } = await api.get('/v1/me', key.secret);
    expect(headers['x-ratelimit-remaining']).toBe('2');
  });

  it('deletes counts of windows that ended long ago', async ({ database, start, counts }) => {
    await database.pool.query(
      `insert into rate_limits values ('requests:1', 5, $1), ('requests:2', 5, $2)`,
      [Date.now() - 2 * 3_600_000, Date.now() + 60_000],
    );
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    await start({ rateLimitStore: 'postgres' });
    vi.advanceTimersByTime(10 * 60_000);
    vi.useRealTimers();
    while ((await counts()).length > 1) await sleep(10);
    expect(await counts()).toEqual([{ key: 'requests:2', points: 5 }]);
  });
});
