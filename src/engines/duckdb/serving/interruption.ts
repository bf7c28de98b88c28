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
