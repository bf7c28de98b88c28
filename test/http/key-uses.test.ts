import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, vi } from 'vitest';
import type { AppOptions } from '../../src/http/app.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { createReaderRole } from '../support/role.ts';
import { addKey } from '../support/shop.ts';
import { recordedLog } from './recorded-log.ts';

type StartAt = (url: string, options?: Partial<AppOptions>) => Promise<TestApi>;

const it = test
  /** Starts an API with another connection string. */
  .extend('startAt', ({ directory }, { onCleanup }): StartAt => {
    const ends: (() => Promise<void>)[] = [];
    onCleanup(async () => {
      for (const end of ends) await end();
    });
    return async (url, options) => {
      const pool = createPool(url, { max: 2, applicationName: 'test' });
      const api = await createTestApi(pool, directory, options);
      ends.push(async () => {
        await api.close();
        await pool.end();
      });
      return api;
    };
  })
  .extend('newKey', ({ database, shop }) => addKey(database.pool, shop.organizationId))
  /** When the key was last used, and the version of its row. */
  .extend('readUse', ({ database, newKey }) => async () => {
    const { rows } = await database.pool.query<{ at: Date | null; version: string }>(
      'select last_used_at as at, xmin::text as version from api_keys where id = $1',
      [newKey.id],
    );
    return rows[0] as { at: Date | null; version: string };
  });

const readOnly = (url: string) => `${url}?options=-c%20default_transaction_read_only%3Don`;

describe('the last use of a key', () => {
  afterEach(() => void vi.useRealTimers());

  const holdInterval = () => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });

  it('is recorded when the API stops', async ({ database, newKey, readUse, startApi }) => {
    const now = async () =>
      (await database.pool.query<{ now: Date }>('select clock_timestamp() as now')).rows[0]?.now;
    const api = await startApi();
    const before = await now();
    expect((await api.get('/v1/me', newKey.secret)).statusCode).toBe(200);
    await api.close();
    const after = await now();
    const { at } = await readUse();
    expect(at?.getTime()).toBeGreaterThanOrEqual((before?.getTime() ?? Infinity) - 1);
    expect(at?.getTime()).toBeLessThanOrEqual((after?.getTime() ?? 0) + 1);
  });

  it('is written at most once a minute, and never goes back', async ({
    database,
    newKey,
    readUse,
    startApi,
  }) => {
    const use = async () => {
      const api = await startApi();
      await api.get('/v1/me', newKey.secret);
      await api.close();
      return readUse();
    };
    const first = await use();
    expect(await use()).toEqual(first);
    for (const [shift, isWritten] of [
      ['-30 s', false],
      ['-61 s', true],
      ['1 h', false],
    ] as const) {
      await database.pool.query(
        'update api_keys set last_used_at = now() + $2::interval where id = $1',
        [newKey.id, shift],
      );
      const before = await readUse();
      expect((await use()).version !== before.version, shift).toBe(isWritten);
    }
  });

  it('is recorded once a minute, and no request waits for it', async ({
    database,
    newKey,
    readUse,
    startApi,
  }) => {
    holdInterval();
    const api = await startApi();
    const unlock = await lockTables(database.pool, 'api_keys', 'share');
    await api.get('/v1/me', newKey.secret);
    vi.advanceTimersByTime(60_000);
    const waiting = `select from pg_locks where not granted and relation = 'api_keys'::regclass`;
    while ((await database.pool.query(waiting)).rowCount === 0) await sleep(5);
    expect((await api.get('/v1/me', newKey.secret)).statusCode).toBe(200);
    await unlock();
    while ((await readUse()).at === null) await sleep(5);
  });

  it.for([
    ['lacks the right', false, /grant update \(last_used_at\) on api_keys to role_\w+/],
    ['is read-only', true, /a replica or read-only/],
  ] as const)(
    'is not recorded if the role %s, which the log says once',
    async ([_, isReadOnly, problem], { database, newKey, readUse, startAt, onTestFinished }) => {
      holdInterval();
      const reader = await createReaderRole(database);
      onTestFinished(reader.drop);
      const { log, lines } = recordedLog();
      const warnings = () => lines.filter((line) => line.includes('last uses of API keys'));
      const api = await startAt(isReadOnly ? readOnly(database.url) : reader.url, { log });
      for (let minute = 0; minute < 2; minute += 1) {
        expect((await api.get('/v1/me', newKey.secret)).statusCode).toBe(200);
        vi.advanceTimersByTime(60_000);
        while (warnings().length === 0) await sleep(5);
      }
      await api.close();
      expect(warnings()).toEqual([expect.stringMatching(problem)]);
      expect((await readUse()).at).toBeNull();
    },
  );

  it('is recorded later if Postgres refuses connections at first', async ({
    newKey,
    readUse,
    database,
    startAt,
    onTestFinished,
  }) => {
    holdInterval();
    const { log, lines } = recordedLog();
    const reader = await createReaderRole(database);
    onTestFinished(reader.drop);
    await database.pool.query(`grant update (last_used_at) on api_keys to ${reader.name}`);
    const api = await startAt(reader.url, { log });
    await api.get('/v1/me', newKey.secret);
    await database.pool.query(`revoke select on api_keys from ${reader.name}`);
    vi.advanceTimersByTime(60_000);
    while (!lines.some((line) => line.includes('did not accept'))) await sleep(5);
    await database.pool.query(`grant select on api_keys to ${reader.name}`);
    vi.advanceTimersByTime(60_000);
    while ((await readUse()).at === null) await sleep(5);
  });
});
