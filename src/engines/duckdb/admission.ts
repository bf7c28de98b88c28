import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type { Askers } from '../../domain/askers.ts';
import { TooManyQuestionsError } from '../../domain/purchase-engine.ts';
import { interruptible } from './interruption.ts';
import { queueClassOf, type Turn, type TurnOptions, Turns, type WaitingQueue } from './turns.ts';

/** A question: one query or several, on a connection that nobody else uses meanwhile. */
export type Ask<Answer> = (connection: DuckDBConnection) => Promise<Answer>;

/**
 * Admits a bounded number of questions to DuckDB at the same time. Each query
 * occupies a thread of libuv's pool (UV_THREADPOOL_SIZE, 4 by default) until it
 * is done, and files, DNS and DuckDB's own clean-up need that pool too. The others
 * wait, by turns of their askers (turns.ts); those beyond the limits are refused.
 */
export type Admission = {
  /**
   * Runs `ask` on a connection of its own. Its query is interrupted, and the
   * promise rejected with the signal's reason, when the signal is aborted or
   * `timeoutMs` have passed, waiting included. Rejects at once with
   * TooManyQuestionsError where it would have to wait, and too many wait already.
   */
  run<Answer>(askers: Askers, signal: AbortSignal | undefined, ask: Ask<Answer>): Promise<Answer>;
  /** Ends when all that was admitted or waits has been answered. */
  close(): Promise<void>;
};

export type AdmissionOptions = {
  readonly concurrency: number;
  readonly queueLimit: number;
  readonly queueLimitPerAsker: number;
  readonly timeoutMs: number;
};

export class QueryTimeoutError extends Error {
  override readonly name = 'QueryTimeoutError';
}

export function createAdmission(instance: DuckDBInstance, options: AdmissionOptions): Admission {
  const { concurrency, timeoutMs } = options;
  const turns = new Turns<() => Promise<unknown>>({
    // A place is kept from whoever has all others, so that nobody else waits for
    // long questions of one asker to end.
    runningPerAsker: Math.max(1, concurrency - 1),
    waiting: options.queueLimit,
    waitingPerAsker: options.queueLimitPerAsker,
  });
  const queue = new PQueue<WaitingQueue, TurnOptions>({
    concurrency,
    queueClass: queueClassOf(turns),
  });
  const idle: DuckDBConnection[] = [];

  const runNow = async <Answer>(signal: AbortSignal, ask: Ask<Answer>): Promise<Answer> => {
    const connection = idle.pop() ?? (await instance.connect());
    try {
      return await interruptible(signal, connection, () => ask(connection));
    } finally {
      idle.push(connection);
    }
  };

  /** Waits for a place, and leaves at once where it is aborted meanwhile. */
  const runInTurn = async <Answer>(
    askers: Askers,
    signal: AbortSignal,
    ask: Ask<Answer>,
  ): Promise<Answer> => {
    const turn: Turn = { askers };
    // Setting it makes the queue look again: a place may be free that, of all
    // askers, only the one who has joined may take.
    askers.onJoin(() => {
      queue.concurrency = concurrency;
    });
    // Not the signal itself: once a question runs, its place is taken until the
    // interrupted query has really ended.
    const leaving = new AbortController();
    const leave = () => leaving.abort(signal.reason);
    signal.addEventListener('abort', leave, { once: true });
    const run = async () => {
      signal.removeEventListener('abort', leave);
      try {
        return await runNow(signal, ask);
      } finally {
        turns.end(turn);
      }
    };
    return queue.add(run, { turn, signal: leaving.signal });
  };

  return {
    async run(askers, signal, ask) {
      signal?.throwIfAborted();
      const mustWait = queue.pending >= concurrency || !turns.mayRun(askers);
      if (mustWait && turns.isFull(askers)) {
        throw new TooManyQuestionsError('too many questions wait already');
      }
      const deadline = new AbortController();
      const timer = setTimeout(
        () => deadline.abort(new QueryTimeoutError(`no answer in ${timeoutMs} ms`)),
        timeoutMs,
      );
      const either =
        signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]);
      return runInTurn(askers, either, ask).finally(() => clearTimeout(timer));
    },
    async close() {
      await queue.onIdle();
      for (const connection of idle.splice(0)) connection.closeSync();
    },
  };
}
