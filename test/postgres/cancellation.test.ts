import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createPool, type Database, withConnection } from '../../src/postgres/pool.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { createPostgresProxy, type PostgresProxy } from '../support/postgres-proxy.ts';

describe('a statement whose caller gives up', () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let pool: Database;
  it.beforeEach(async ({ database: ownDatabase }) => {
    database = ownDatabase;
    proxy = await createPostgresProxy(database.url);
    pool = createPool(proxy.url, { max: 1, applicationName: 'gives up' });
    return async () => {
      await pool.end();
      await proxy.close();
    };
  });

  /** Runs the statement until it is given up; it sleeps for longer than any test. */
  function runUntilGivenUp() {
    const caller = new AbortController();
    const outcome = withConnection(
      pool,
      (connection) => connection.query('select pg_sleep(1000)'),
      caller.signal,
    ).then(
      () => 'done',
      (error: unknown) => (error === caller.signal.reason ? 'given up' : error),
    );
    return { giveUp: () => caller.abort(), outcome };
  }

  const running = async (): Promise<number> => {
    const { rows } = await database.pool.query(
      `select from pg_stat_activity where application_name = 'gives up' and state = 'active'`,
    );
    return rows.length;
  };
  const until = async (isSo: () => Promise<boolean> | boolean) => {
    while (!(await isSo())) await sleep(10);
  };
  const until1 = () => until(async () => (await running()) === 1);

  it('is cancelled, and leaves the pool as it was', async () => {
    const { giveUp, outcome } = runUntilGivenUp();
    await until1();
    giveUp();
    expect(await outcome).toBe('given up');
    await until(async () => (await running()) === 0);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    expect(pool.totalCount).toBe(1);
  });

  it('keeps its place until it has ended, and is asked to again until it is heard', async () => {
    const { giveUp, outcome } = runUntilGivenUp();
    await until1();
    proxy.mode = 'refuse';
    giveUp();
    await until(() => proxy.unforwarded >= 3);
    expect(await running()).toBe(1);
    expect([pool.totalCount, pool.idleCount]).toEqual([1, 0]);
    proxy.mode = 'forward';
    expect(await outcome).toBe('given up');
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('runs to its end where no request to cancel is answered', async () => {
    const { giveUp, outcome } = runUntilGivenUp();
    await until1();
    proxy.mode = 'discard';
    giveUp();
    await until(() => proxy.unforwarded > 0);
    expect(await running()).toBe(1);
    await database.pool.query(
      `select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'gives up'`,
    );
    expect(await outcome).toBe('given up');
    expect(proxy.unforwarded).toBe(1);
    proxy.mode = 'forward';
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('is not begun where the caller has left while waiting for a connection', async () => {
    const first = runUntilGivenUp();
    await until1();
    const callers = Array.from({ length: 300 }, runUntilGivenUp);
    for (const { giveUp } of callers) giveUp();
    first.giveUp();
    const outcomes = await Promise.all([first, ...callers].map(({ outcome }) => outcome));
    expect(new Set(outcomes)).toEqual(new Set(['given up']));
    expect([pool.totalCount, pool.waitingCount]).toEqual([1, 0]);
    expect(await running()).toBe(0);
  });

  it('takes nobody else’s statement with it', async () => {
    const impatient = async (delay: number) => {
      const caller = new AbortController();
      setTimeout(() => caller.abort(), delay);
      const work = (connection: { query(text: string): Promise<unknown> }) =>
        connection.query('select pg_sleep(0.002)');
      return withConnection(pool, work, caller.signal).catch((error: unknown) => {
        if (error !== caller.signal.reason) throw error;
      });
    };
    // One connection for all: the next query gets it at the moment when it is free.
    const neighbour = () =>
      withConnection(pool, (connection) => connection.query('select pg_sleep(0.001)'));
    for (let round = 0; round < 40; round += 1) {
      const delays = [0, 1, 2, 3, 4, 6, 8, 10];
      await Promise.all(delays.flatMap((delay) => [impatient(delay), neighbour()]));
    }
    expect(pool.waitingCount).toBe(0);
    expect(pool.totalCount).toBeLessThanOrEqual(1);
  });
});
