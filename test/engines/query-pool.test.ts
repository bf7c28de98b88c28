import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { QueryTimeoutError, QueueFullError } from '../../src/domain/purchase-engine.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { createQueryPool } from '../../src/engines/duckdb/query-pool.ts';
import type { QueryQueueOptions } from '../../src/engines/query-queue.ts';
import { test } from '../support/fixtures.ts';

// Runs for years.
const endless = 'select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b';
const defaults = { concurrency: 1, queueLimit: 100, queueLimitPerClient: 100, timeoutMs: 30_000 };
const disconnected = new Error('the client disconnected');

type Query = {
  /** The result, or the error. */
  readonly outcome: Promise<unknown>;
  /** Disconnects the client. */
  abort(): void;
};

const quick = async (connection: DuckDBConnection) =>
  (await connection.runAndReadAll('select 42')).getRows();

/** Creates a pool, and records the queries that start in it. */
function createRecordedPool(instance: DuckDBInstance, options: Partial<QueryQueueOptions>) {
  const pool = createQueryPool(instance, { ...defaults, ...options });
  const queries: Query[] = [];
  const started: string[] = [];
  return {
    /** The names of the queries that run or ran. */
    started,
    /** Runs a query, by default an endless one. Its name is the client and a number. */
    run(
      name: string,
      query = (connection: DuckDBConnection): Promise<unknown> => connection.run(endless),
    ): Query {
      const client = new AbortController();
      const result = pool.run(name.slice(0, 1), client.signal, (connection) => {
        started.push(name);
        return query(connection);
      });
      const outcome = result.catch((error: unknown) => error);
      const running = { outcome, abort: () => client.abort(disconnected) };
      queries.push(running);
      return running;
    },
    async expectUsable(client = 'z') {
      expect(await this.run(client, quick).outcome).toEqual([[42]]);
    },
    /** Requires that these queries and no others start. Concurrent ones start in any order. */
    async expectStarted(...names: string[]) {
      while (started.length < names.length) await sleep(5);
      expect([...started].sort()).toEqual(names.sort());
    },
    close: () => pool.close(),
    async abortAndClose() {
      for (const { abort } of queries) abort();
      await pool.close();
    },
  };
}

const it = test
  .extend('instance', { scope: 'file' }, async ({ directory: spillDirectory }, { onCleanup }) => {
    const instance = await createInstance({ threads: 2, memoryLimit: '256MiB', spillDirectory });
    onCleanup(() => instance.closeSync());
    return instance;
  })
  .extend('open', ({ instance }, { onCleanup }) => {
    const pools: ReturnType<typeof createRecordedPool>[] = [];
    onCleanup(async () => {
      for (const pool of pools) await pool.abortAndClose();
    });
    return (options: Partial<QueryQueueOptions> = {}) => {
      const pool = createRecordedPool(instance, options);
      pools.push(pool);
      return pool;
    };
  });

describe('the query pool of DuckDB', () => {
  it('ends a query whose client disconnects between two statements', async ({ open }) => {
    const pool = open();
    const query = pool.run('a', async (connection) => {
      await connection.run('select 1');
      query.abort();
      // The interrupt finds no query to end.
      await new Promise(setImmediate);
      await connection.run(endless);
    });
    expect(await query.outcome).toBe(disconnected);
    await pool.expectUsable();
  });

  it('removes an aborted query from the queue at once', async ({ open }) => {
    const pool = open();
    const first = pool.run('a1');
    const second = pool.run('a2');
    second.abort();
    expect(await second.outcome).toBe(disconnected);
    await pool.expectStarted('a1');
    first.abort();
    await pool.expectUsable();
    expect(pool.started).toEqual(['a1', 'z']);
  });

  it('counts the time in the queue towards the deadline of a query', async ({ open }) => {
    const pool = open({ timeoutMs: 1_000 });
    let end = () => {};
    const first = pool.run('a1', () => new Promise<void>((resolve) => (end = resolve)));
    await pool.expectStarted('a1');
    expect(await pool.run('b1').outcome).toBeInstanceOf(QueueFullError);
    // The deadline of a1 has passed too. It keeps its slot until it ends.
    expect(pool.started).toEqual(['a1']);
    end();
    expect(await first.outcome).toBeInstanceOf(QueryTimeoutError);
    await pool.expectUsable();
  });

  it('runs the query of another client next, before the queued queries of one client', async ({
    open,
  }) => {
    const pool = open();
    const flood = Array.from({ length: 50 }, (_, index) => pool.run(`a${index}`));
    const [one, other] = [pool.run('b1', quick), pool.run('b2', quick)];
    await pool.expectStarted('a0');
    flood[0]?.abort();
    expect(await one.outcome).toEqual([[42]]);
    await pool.expectStarted('a0', 'b1', 'a1');
    flood[1]?.abort();
    expect(await other.outcome).toEqual([[42]]);
  });

  it('leaves a slot free for other clients', async ({ open }) => {
    const pool = open({ concurrency: 3 });
    const flood = Array.from({ length: 10 }, (_, index) => pool.run(`a${index}`));
    for (let count = 0; count < 5; count += 1) await pool.expectUsable('b');
    await pool.expectStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b');
    flood[0]?.abort();
    await pool.expectStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b', 'a2');
  });

  it('runs the queries that waited longest first, if three clients have queued queries', async ({
    open,
  }) => {
    const pool = open({ concurrency: 3 });
    const flood = Array.from({ length: 4 }, (_, index) => pool.run(`a${index}`));
    const [, , waiting] = [pool.run('b1'), pool.run('b2'), pool.run('c1', quick)];
    await pool.expectStarted('a0', 'a1', 'b1');
    flood[0]?.abort();
    await pool.expectStarted('a0', 'a1', 'b1', 'b2');
    flood[1]?.abort();
    expect(await waiting.outcome).toEqual([[42]]);
    await pool.expectStarted('a0', 'a1', 'b1', 'b2', 'c1', 'a2');
  });

  it('runs the queries in the queue before it closes', async ({ open }) => {
    const pool = open();
    const running = pool.run('a1');
    const waiting = pool.run('b1', quick);
    const closing = pool.close();
    running.abort();
    await closing;
    expect(await waiting.outcome).toEqual([[42]]);
  });
});
