import { type Database, lastResponseAt } from '../../postgres/connection/pool.ts';

/** Postgres neither responds nor refuses: the server is frozen, or the network drops packets. */
export class SilenceError extends Error {
  override readonly name = 'SilenceError';
}

/**
 * Waits for `work`. Rejects with SilenceError if Postgres has not responded on any connection of
 * the pool for `maxSilenceMs`. Any response shows that Postgres is slow, not down: on an overloaded
 * machine a request may wait longer.
 */
export async function waitForPostgres<Result>(
  database: Database,
  work: Promise<Result>,
  maxSilenceMs: number,
): Promise<Result> {
  const startedAt = performance.now();
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  const silence = new Promise<never>((_resolve, reject) => {
    const check = () => {
      if (isOver) return;
      const respondedAt = Math.max(startedAt, lastResponseAt(database));
      const restMs = respondedAt + maxSilenceMs - performance.now();
      if (restMs > 0) wait(restMs);
      else reject(new SilenceError(`Postgres has not responded for ${maxSilenceMs} ms`));
    };
    // After a blocked event loop, timers run before responses that have arrived meanwhile.
    const wait = (ms: number) => {
      timer = setTimeout(setImmediate, ms, check);
    };
    wait(maxSilenceMs);
  });
  try {
    return await Promise.race([work, silence]);
  } finally {
    isOver = true;
    clearTimeout(timer);
  }
}
