import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';

/**
 * Admits a bounded number of questions to DuckDB at the same time. Each query
 * occupies a thread of libuv's pool (UV_THREADPOOL_SIZE, 4 by default) until it
 * is done, and files, DNS and DuckDB's own clean-up need that pool too.
 */
export type Admission = {
  /**
   * Runs `ask` on a connection of its own. Its query is interrupted, and the
   * promise rejected with the signal's reason, when the signal is aborted or
   * `timeoutMs` have passed.
   */
  run<Answer>(
    signal: AbortSignal | undefined,
    ask: (connection: DuckDBConnection) => Promise<Answer>,
  ): Promise<Answer>;
  close(): Promise<void>;
};

const interruptEveryMs = 10;

export class QueryTimeoutError extends Error {
  override readonly name = 'QueryTimeoutError';
}

export function createAdmission(
  instance: DuckDBInstance,
  options: { readonly concurrency: number; readonly timeoutMs: number },
): Admission {
  const queue = new PQueue({ concurrency: options.concurrency });
  const idle: DuckDBConnection[] = [];

  const runNow = async <Answer>(
    signal: AbortSignal,
    ask: (connection: DuckDBConnection) => Promise<Answer>,
  ): Promise<Answer> => {
    signal.throwIfAborted();
    const connection = idle.pop() ?? (await instance.connect());
    // DuckDB forgets an interrupt when the next query begins: it is repeated until
    // the question has ended, however many queries it still would have put.
    let interrupting: NodeJS.Timeout | undefined;
    const interrupt = () => {
      connection.interrupt();
      interrupting = setInterval(() => connection.interrupt(), interruptEveryMs);
    };
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      const answer = await ask(connection);
      signal.throwIfAborted();
      return answer;
    } catch (error) {
      throw signal.aborted ? signal.reason : error;
    } finally {
      signal.removeEventListener('abort', interrupt);
      clearInterval(interrupting);
      idle.push(connection);
    }
  };

  return {
    run: <Answer>(
      signal: AbortSignal | undefined,
      ask: (connection: DuckDBConnection) => Promise<Answer>,
    ) => {
      const deadline = new AbortController();
      const timer = setTimeout(
        () => deadline.abort(new QueryTimeoutError(`no answer in ${options.timeoutMs} ms`)),
        options.timeoutMs,
      );
      const either =
        signal === undefined ? deadline.signal : AbortSignal.any([signal, deadline.signal]);
      return new Promise<Answer>((resolve, reject) => {
        // While it waits, a question leaves at once. Once it runs, its place is
        // taken until the interrupted query has really ended.
        let running = false;
        const leave = () => {
          if (!running) reject(either.reason);
        };
        either.addEventListener('abort', leave, { once: true });
        const task = () => {
          running = true;
          return runNow(either, ask);
        };
        queue.add(task).then(resolve, reject);
      }).finally(() => clearTimeout(timer));
    },
    async close() {
      queue.clear();
      await queue.onIdle();
      for (const connection of idle.splice(0)) connection.closeSync();
    },
  };
}
