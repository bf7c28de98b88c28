import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { QueryTimeoutError, QueueFullError } from '../../src/domain/purchase-engine.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { createQueryPool } from '../../src/engines/duckdb/serving/query-pool.ts';
import type { QueryQueueOptions } from '../../src/queue/query-queue.ts';
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
    /**
     * Runs a query, by default an endless one. Its name is a letter for the organization, one for the client,
     * and a number.
     */
    run(
      name: string,
      query = (connection: DuckDBConnection): Promise<unknown> => connection.run(endless),
    ): Query {
      const connected = new AbortController();
      const organizationId = BigInt(name.charCodeAt(0));
      const client = { organizationId, name: name.slice(1, 2) };
      const result = pool.run(client, connected.signal, (connection) => {
        started.push(name);
        return query(connection);
      });
      const outcome = result.catch((error: unknown) => error);
      const running = { outcome, abort: () => connected.abort(disconnected) };
      queries.push(running);
      return running;
    },
    async expectUsable(name = 'zz') {
      expect(await this.run(name, quick).outcome).toEqual([[42]]);
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
    const query = pool.run('aa', async (connection) => {
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
    const first = pool.run('aa1');
    const second = pool.run('aa2');
    second.abort();
    expect(await second.outcome).toBe(disconnected);
    await pool.expectStarted('aa1');
    first.abort();
    await pool.expectUsable();
    expect(pool.started).toEqual(['aa1', 'zz']);
  });

  it('counts the time in the queue towards the deadline of a query', async ({ open }) => {
    const pool = open({ timeoutMs: 1_000 });
    let end = () => {};
    const first = pool.run('aa1', () => new Promise<void>((resolve) => (end = resolve)));
    await pool.expectStarted('aa1');
    expect(await pool.run('bb1').outcome).toBeInstanceOf(QueueFullError);
    // The deadline of aa1 has passed too. It keeps its slot until it ends.
    expect(pool.started).toEqual(['aa1']);
    end();
    expect(await first.outcome).toBeInstanceOf(QueryTimeoutError);
    await pool.expectUsable();
  });

  const flood = Array.from({ length: 50 }, (_, index) => `aa${index + 1}`);

  it.for([
    ['another organization', [...flood, 'bb1', 'bb2'], 'aa1 bb1 aa2 bb2 aa3 aa4'],
    ['another client of the organization', [...flood, 'ab1', 'ab2'], 'aa1 aa2 ab1 aa3 ab2 aa4'],
    [
      'organizations and clients',
      ['aa1', 'aa2', 'aa3', 'ab1', 'ab2', 'ac1', 'bb1', 'bb2', 'cc1'],
      'aa1 bb1 cc1 aa2 bb2 ab1 ac1 aa3 ab2',
    ],
  ] as const)('takes turns with %s', async ([, names, order], { open }) => {
    const pool = open({ concurrency: 1 });
    const queries = new Map(names.map((name) => [name, pool.run(name)]));
    for (const [index, name] of order.split(' ').entries()) {
      await pool.expectStarted(...order.split(' ').slice(0, index + 1));
      queries.get(name)?.abort();
    }
  });

  it('leaves a slot free for other organizations, however many clients one has', async ({
    open,
  }) => {
    const pool = open({ concurrency: 3 });
    const flood = ['aa', 'ab', 'ac', 'ad', 'ae', 'af'].map((client) => pool.run(`${client}1`));
    for (let count = 0; count < 5; count += 1) await pool.expectUsable('bb');
    await pool.expectStarted('aa1', 'ab1', 'bb', 'bb', 'bb', 'bb', 'bb');
    flood[0]?.abort();
    await pool.expectStarted('aa1', 'ab1', 'bb', 'bb', 'bb', 'bb', 'bb', 'ac1');
  });

  it('lets one client occupy all slots of its organization', async ({ open }) => {
    const pool = open({ concurrency: 3 });
    for (const name of ['aa1', 'aa2', 'aa3']) pool.run(name);
    await pool.expectUsable('bb');
    await pool.expectStarted('aa1', 'aa2', 'bb');
  });

  it('refuses no query of another organization while one has as many in the queue as it may have', async ({
    open,
  }) => {
    const pool = open({ queueLimit: 5, queueLimitPerClient: 2 });
    const queries = ['aa0', 'aa1', 'aa2', 'ab1'].map((name) => pool.run(name));
    for (const name of ['aa3', 'ab2', 'ac1']) {
      expect(await pool.run(name).outcome).toBeInstanceOf(QueueFullError);
    }
    const others = [pool.run('bb1', quick), pool.run('bb2', quick)];
    expect(await pool.run('cc1').outcome).toBeInstanceOf(QueueFullError);
    for (const { abort } of queries) abort();
    for (const { outcome } of others) expect(await outcome).toEqual([[42]]);
  });

  it('runs the queries in the queue before it closes', async ({ open }) => {
    const pool = open();
    const running = pool.run('aa1');
    const waiting = pool.run('bb1', quick);
    const closing = pool.close();
    running.abort();
    await closing;
    expect(await waiting.outcome).toEqual([[42]]);
  });
});
