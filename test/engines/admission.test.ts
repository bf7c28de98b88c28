import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Askers } from '../../src/domain/askers.ts';
import { TooManyQuestionsError } from '../../src/domain/purchase-engine.ts';
import {
  type Admission,
  type AdmissionOptions,
  createAdmission,
  QueryTimeoutError,
} from '../../src/engines/duckdb/admission.ts';
import { createInstance } from '../../src/engines/duckdb/connection.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// Never ends by itself: a sum over more rows than anybody waits for.
const endless = 'select sum(a.range * b.range) from range(1000000000) a, range(1000000000) b';
const usual = { concurrency: 1, queueLimit: 100, queueLimitPerAsker: 100, timeoutMs: 30_000 };

describe('admission to DuckDB', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let instance: DuckDBInstance;
  let admission: Admission;
  /** Questions that have got a place, by name: the asker's, and whatever number. */
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
    await admission.close();
    instance.closeSync();
    await directory.remove();
  });

  const open = (options: Partial<AdmissionOptions> = {}) => {
    admission = createAdmission(instance, { ...usual, ...options });
  };

  type Asked = {
    readonly askers: Askers;
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
    const askers = new Askers(name.slice(0, 1));
    const asking = admission.run(askers, client.signal, (connection) => {
      started.push(name);
      return question(connection);
    });
    const outcome = asking.catch((error: unknown) => error);
    const one = { askers, outcome, leave: () => client.abort(left) };
    asked.push(one);
    return one;
  };
  const light = async (connection: DuckDBConnection) =>
    (await connection.runAndReadAll('select 42')).getRows();
  const works = async (asker = 'z') => expect(await ask(asker, light).outcome).toEqual([[42]]);
  /** These, and no others; which have started at the same time may have done so in any order. */
  const untilStarted = async (...names: string[]) => {
    while (started.length < names.length) await sleep(5);
    expect([...started].sort()).toEqual(names.sort());
  };

  it('ends a question at its deadline and goes on with the next', async () => {
    open({ timeoutMs: 500 });
    expect(await ask('a').outcome).toBeInstanceOf(QueryTimeoutError);
    await works();
  });

  it('ends a question whose client leaves between two of its queries', async () => {
    open();
    const asking = ask('a', async (connection) => {
      await connection.run('select 1');
      asking.leave();
      await sleep(50);
      await connection.run(endless);
    });
    expect(await asking.outcome).toBe(left);
    await works();
  });

  it('lets a question leave the queue without waiting for those before it', async () => {
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

  it('counts the time that a question waits towards its deadline', async () => {
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

  it('has a question of another asker go next, however many wait before it', async () => {
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

  it('gives no asker all places, so that the next one need not wait', async () => {
    open({ concurrency: 3 });
    const flood = Array.from({ length: 10 }, (_, index) => ask(`a${index}`));
    for (let question = 0; question < 5; question += 1) await works('b');
    await untilStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b');
    flood[0]?.leave();
    await untilStarted('a0', 'a1', 'b', 'b', 'b', 'b', 'b', 'a2');
  });

  it('gives a place to who has fewest of them', async () => {
    open({ concurrency: 3 });
    const flood = Array.from({ length: 3 }, (_, index) => ask(`a${index}`));
    const [blocking, , waiting] = [ask('b1'), ask('b2'), ask('c1', light)];
    await untilStarted('a0', 'a1', 'b1');
    flood[0]?.leave();
    expect(await waiting.outcome).toEqual([[42]]);
    // One and one: it is the turn of who was served longer ago.
    await untilStarted('a0', 'a1', 'b1', 'c1', 'b2');
    blocking.leave();
    await untilStarted('a0', 'a1', 'b1', 'c1', 'b2', 'a2');
  });

  it('refuses at once what would wait beyond the limits, of one asker or of all', async () => {
    open({ queueLimit: 3, queueLimitPerAsker: 2 });
    const running = ask('a1');
    const [second, third] = [ask('a2'), ask('a3')];
    expect(await ask('a4').outcome).toBeInstanceOf(TooManyQuestionsError);
    const other = ask('b1', light);
    expect(await ask('b2').outcome).toBeInstanceOf(TooManyQuestionsError);
    expect(await ask('c1').outcome).toBeInstanceOf(TooManyQuestionsError);
    // Who leaves makes room, which is somebody's at once.
    second.leave();
    const another = ask('c2', light);
    expect(await ask('c3').outcome).toBeInstanceOf(TooManyQuestionsError);
    running.leave();
    for (const { outcome } of [other, another]) expect(await outcome).toEqual([[42]]);
    third.leave();
    await works('a');
  });

  it('answers without a queue what need not wait', async () => {
    open({ queueLimit: 0, queueLimitPerAsker: 0 });
    const running = ask('a1');
    expect(await ask('b1').outcome).toBeInstanceOf(TooManyQuestionsError);
    running.leave();
    await running.outcome;
    await works('b');
  });

  it('goes by the turn of whoever joins a question that waits', async () => {
    open({ concurrency: 2 });
    const [first, second] = [ask('a1'), ask('a2', light)];
    await untilStarted('a1');
    second.askers.join('b');
    expect(await second.outcome).toEqual([[42]]);
    // The place that it took was not of the one who asked first.
    first.leave();
    await first.outcome;
    await works('a');
  });

  it('forgets the turn of who has joined and left again', async () => {
    open({ concurrency: 2 });
    const [first, second] = [ask('a1'), ask('a2', light)];
    const [third, fourth] = [ask('b1'), ask('c1', light)];
    await untilStarted('a1', 'b1');
    second.askers.join('d');
    second.askers.leave('d');
    third.leave();
    expect(await fourth.outcome).toEqual([[42]]);
    await untilStarted('a1', 'b1', 'c1');
    first.leave();
    expect(await second.outcome).toEqual([[42]]);
  });

  it('answers what waits before it closes', async () => {
    open();
    const running = ask('a1');
    const waiting = ask('b1', light);
    const closing = admission.close();
    running.leave();
    await closing;
    expect(await waiting.outcome).toEqual([[42]]);
  });
});
