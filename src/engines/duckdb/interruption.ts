import type { DuckDBConnection } from '@duckdb/node-api';

const interruptEveryMs = 10;

/**
 * Gives what `work` gives. Once the signal is aborted, the connection's queries are
 * interrupted; when they have really ended, it rejects with the signal's reason.
 */
export async function interruptible<Result>(
  signal: AbortSignal,
  connection: DuckDBConnection,
  work: () => Promise<Result>,
): Promise<Result> {
  signal.throwIfAborted();
  // DuckDB forgets an interrupt when the next query begins: it is repeated until
  // the work has ended, however many queries it still would have put.
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
