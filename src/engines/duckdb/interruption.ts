import type { DuckDBConnection } from '@duckdb/node-api';

const interruptEveryMs = 10;

/**
 * Runs `work`. An aborted signal interrupts the connection's queries. When they have ended,
 * the promise rejects with the signal's reason.
 */
export async function interruptible<Result>(
  signal: AbortSignal,
  connection: DuckDBConnection,
  work: () => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  // DuckDB clears an interrupt when the next query begins, and `work` may run several.
  let interrupting: NodeJS.Timeout | undefined;
  const interrupt = () => {
    connection.interrupt();
    interrupting = setInterval(() => connection.interrupt(), interruptEveryMs);
  };
  signal.addEventListener('abort', interrupt, { once: true });
  try {
    const result = await work();
    signal.throwIfAborted();
    return result;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener('abort', interrupt);
    clearInterval(interrupting);
  }
}

/** Tasks that `close` aborts. */
export function createAbortableTasks() {
  const closing = new AbortController();
  const running = new Set<Promise<unknown>>();
  return {
    /** Runs `task` with a signal that `signal` or `close` aborts. */
    run<Result>(
      signal: AbortSignal | undefined,
      task: (signal: AbortSignal) => Promise<Result>,
    ): Promise<Result> {
      const signals = signal === undefined ? [closing.signal] : [signal, closing.signal];
      const either = AbortSignal.any(signals);
      if (either.aborted) return Promise.reject(either.reason);
      const result = task(either);
      running.add(result);
      const remove = () => running.delete(result);
      result.then(remove, remove);
      return result;
    },
    /** Resolves when all tasks have ended. */
    async close() {
      closing.abort(new Error('the engine is closing'));
      await Promise.allSettled(running);
    },
  };
}
