import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createPool, type Database, withConnection } from '../../src/postgres/connection/pool.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import type { PostgresProxy } from '../support/postgres-proxy.ts';

describe('a statement whose caller aborts', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let pool: Database;
  it.beforeEach(({ database: ownDatabase, proxy: ownProxy }) => {
    [database, proxy] = [ownDatabase, ownProxy];
    pool = createPool(proxy.url, { max: 1, applicationName: 'cancellation' });
    return () => pool.end();
  });

  /** Runs a statement that does not end before it is cancelled. */
  function runUntilAborted() {
    const caller = new AbortController();
    const outcome = withConnection(
      pool,
      (connection) => connection.query('select pg_sleep(1000)'),
      caller.signal,
    ).then(
      () => 'done',
      (error: unknown) => (error === caller.signal.reason ? 'aborted' : error),
    );
    return { abort: () => caller.abort(), outcome };
  }

  const running = async (): Promise<number> => {
    const { rows } = await database.pool.query(
      `select from pg_stat_activity
       where application_name = 'cancellation' and state = 'active' and query = 'select pg_sleep(1000)'`,
    );
    return rows.length;
  };
  const until = async (condition: () => Promise<boolean> | boolean) => {
    while (!(await condition())) await sleep(10);
  };
  const untilRunning = () => until(async () => (await running()) === 1);

  it('is cancelled, and its connection returns to the pool', async () => {
    const { abort, outcome } = runUntilAborted();
    await untilRunning();
    abort();
    expect(await outcome).toBe('aborted');
    await until(async () => (await running()) === 0);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    expect(pool.totalCount).toBe(1);
  });

  it('keeps its connection until it ends, while the cancel request is repeated', async () => {
    const { abort, outcome } = runUntilAborted();
    await untilRunning();
    proxy.mode = 'refuse';
    abort();
    await until(() => proxy.unforwarded >= 3);
    expect(await running()).toBe(1);
    expect([pool.totalCount, pool.idleCount]).toEqual([1, 0]);
    proxy.mode = 'forward';
    expect(await outcome).toBe('aborted');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('runs to its end if Postgres does not respond to the cancel request', async () => {
    const { abort, outcome } = runUntilAborted();
    await untilRunning();
    proxy.mode = 'discard';
    abort();
    await until(() => proxy.unforwarded > 0);
    expect(await running()).toBe(1);
    await database.pool.query(
      `select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'cancellation'`,
    );
    expect(await outcome).toBe('aborted');
    expect(proxy.unforwarded).toBe(1);
    proxy.mode = 'forward';
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('does not start if the caller aborts while it waits for a connection', async () => {
    const first = runUntilAborted();
    await untilRunning();
    const callers = Array.from({ length: 300 }, runUntilAborted);
    for (const { abort } of callers) abort();
    first.abort();
    const outcomes = await Promise.all([first, ...callers].map(({ outcome }) => outcome));
    expect(new Set(outcomes)).toEqual(new Set(['aborted']));
    expect([pool.totalCount, pool.waitingCount]).toEqual([1, 0]);
    expect(await running()).toBe(0);
  });

  it('is the only statement that is cancelled', { tags: ['slow'] }, async () => {
    const impatient = async (delay: number) => {
      const caller = new AbortController();
      setTimeout(() => caller.abort(), delay);
      const work = (connection: { query(text: string): Promise<unknown> }) =>
        connection.query('select pg_sleep(0.002)');
      return withConnection(pool, work, caller.signal).catch((error: unknown) => {
        if (error !== caller.signal.reason) throw error;
      });
    };
    // All share one connection, which the next query gets as soon as it is free.
    const other = () =>
      withConnection(pool, (connection) => connection.query('select pg_sleep(0.001)'));
    for (let round = 0; round < 40; round += 1) {
      const delays = [0, 1, 2, 3, 4, 6, 8, 10];
      await Promise.all(delays.flatMap((delay) => [impatient(delay), other()]));
    }
    expect(pool.waitingCount).toBe(0);
    expect(pool.totalCount).toBeLessThanOrEqual(1);
  });
});
