import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { QueueFullError } from '../../src/domain/purchase-engine.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import {
  createQueryPool,
  type QueryPool,
  type QueryPoolOptions,
  QueryTimeoutError,
} from '../../src/engines/duckdb/query-pool.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// Never ends by itself: a sum over more rows than anybody waits for.
const endless = 'select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b';
const usual = { concurrency: 1, queueLimit: 100, queueLimitPerClient: 100, timeoutMs: 30_000 };

describe('the query pool of DuckDB', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let instance: DuckDBInstance;
  let queries: QueryPool;
  /** Queries that run or ran, by name: the client's, and a number. */
  let started: string[];
  let asked: Asked[];

  beforeEach(async () => {
    directory = await temporaryDirectory();
    instance = await createInstance({
      threads: 2,
      memoryLimit: '256MiB',
      spillDirectory: directory.path,
    });
    started = [];
    asked = [];
  });
  afterEach(async () => {
    for (const { leave } of asked) leave();
    await queries.close();
    instance.closeSync();
    await directory.remove();
  });

  const open = (options: Partial<QueryPoolOptions> = {}) => {
    queries = createQueryPool(instance, { ...usual, ...options });
  };

  type Asked = {
    /** What it came to: an answer, or why there is none. */
    readonly outcome: Promise<unknown>;
    leave(): void;
  };
  const left = new Error('gone');
  const ask = (
    name: string,
    question = (connection: DuckDBConnection): Promise<unknown> => connection.run(endless),
  ): Asked => {
    const client = new AbortController();
    const asking = queries.run(name.slice(0, 1), client.signal, (connection) => {
      started.push(name);
      return question(connection);
    });
    const outcome = asking.catch((error: unknown) => error);
    const one = { outcome, leave: () => client.abort(left) };
    asked.push(one);
    return one;
  };
  const light = async (connection: DuckDBConnection) =>
    (await connection.runAndReadAll('select 42')).getRows();
  const works = async (client = 'z') => expect(await ask(client, light).outcome).toEqual([[42]]);
  /** These, and no others; which have started at the same time may have done so in any order. */
  const untilStarted = async (...names: string[]) => {
    while (started.length < names.length) await sleep(5);
    expect([...started].sort()).toEqual(names.sort());
  };

  it('ends a query at its deadline, and continues with the next', async () => {
    open({ timeoutMs: 500 });
    expect(await ask('a').outcome).toBeInstanceOf(QueryTimeoutError);
    await works();
  });

  it('ends a query whose client disconnects between two statements', async () => {
    open();
    const asking = ask('a', async (connection) => {
      await connection.run('select 1');
      asking.leave();
      // The interrupt finds no query to end.
      await new Promise(setImmediate);
      await connection.run(endless);
    });
    expect(await asking.outcome).toBe(left);
    await works();
  });

  it('removes an aborted query from the queue at once', async () => {
    open();
    const first = ask('a1');
    const second = ask('a2');
    second.leave();
    expect(await second.outcome).toBe(left);
    await untilStarted('a1');
    first.leave();
    await works();
    expect(started).toEqual(['a1', 'z']);
  });

  it('counts the time in the queue towards the deadline of a query', async () => {
    open({ timeoutMs: 100 });
    let end = () => {};
    const first = ask('a1', () => new Promise<void>((resolve) => (end = resolve)));
    expect(await ask('b1').outcome).toBeInstanceOf(QueryTimeoutError);
    // Its own deadline has passed, too; its place is taken until it has really ended.
    expect(started).toEqual(['a1']);
    end();
    expect(await first.outcome).toBeInstanceOf(QueryTimeoutError);
    await works();
  });

  it('runs the query of another client next, however many wait before it', async () => {
    open();
    const flood = Array.from({ length: 50 }, (_, index) => ask(`a${index}`));
    const [one, other] = [ask('b1', light), ask('b2', light)];
    await untilStarted('a0');
    flood[0]?.leave();
    expect(await one.outcome).toEqual([[42]]);
    await untilStarted('a0', 'b1', 'a1');
    flood[1]?.leave();
    expect(await other.outcome).toEqual([[42]]);
  });

  it('gives no client all slots, so that the next client need not wait', async () => {
    open({ concurrency: 3 });
    const flood = Array.from({ length: 10 }, (_, index) => ask(`a${index}`));
    for (let question = 0; question < 5; question += 1) await works('b');
    await untilStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b');
    flood[0]?.leave();
    await untilStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b', 'a2');
  });

  it('runs no query of a client while queries of two others have waited longer', async () => {
    open({ concurrency: 3 });
    const flood = Array.from({ length: 4 }, (_, index) => ask(`a${index}`));
    const [, , waiting] = [ask('b1'), ask('b2'), ask('c1', light)];
    await untilStarted('a0', 'a1', 'b1');
    flood[0]?.leave();
    await untilStarted('a0', 'a1', 'b1', 'b2');
    flood[1]?.leave();
    expect(await waiting.outcome).toEqual([[42]]);
    await untilStarted('a0', 'a1', 'b1', 'b2', 'c1', 'a2');
  });

  it('refuses queries beyond the queue limits, of one client or of all', async () => {
    open({ queueLimit: 3, queueLimitPerClient: 2 });
    const running = ask('a1');
    const [second, third] = [ask('a2'), ask('a3')];
    expect(await ask('a4').outcome).toBeInstanceOf(QueueFullError);
    const other = ask('b1', light);
    expect(await ask('b2').outcome).toBeInstanceOf(QueueFullError);
    expect(await ask('c1').outcome).toBeInstanceOf(QueueFullError);
    // Who leaves makes room, which is somebody's at once.
    second.leave();
    const another = ask('c2', light);
    expect(await ask('c3').outcome).toBeInstanceOf(QueueFullError);
    running.leave();
    for (const { outcome } of [other, another]) expect(await outcome).toEqual([[42]]);
    third.leave();
    await works('a');
  });

  it('runs a query without a queue if a slot is free', async () => {
    open({ queueLimit: 0, queueLimitPerClient: 0 });
    const running = ask('a1');
    expect(await ask('b1').outcome).toBeInstanceOf(QueueFullError);
    running.leave();
    await running.outcome;
    await works('b');
  });

  it('runs the queries in the queue before it closes', async () => {
    open();
    const running = ask('a1');
    const waiting = ask('b1', light);
    const closing = queries.close();
    running.leave();
    await closing;
    expect(await waiting.outcome).toEqual([[42]]);
  });
});
