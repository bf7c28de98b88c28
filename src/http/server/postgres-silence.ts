import { type Database, lastAnswerAt } from '../../postgres/pool.ts';

/** Postgres answers nothing and refuses nothing: it is frozen, or the network drops its packets. */
export class SilenceError extends Error {
  override readonly name = 'SilenceError';
}

/** How long a silence may last. The rest of a second is for a burst of responses. */
export const defaultMaxSilenceMs = 700;

/**
 * Waits for Postgres on behalf of a request. Rejects with SilenceError if, for so long, Postgres has
 * answered neither the request nor anything else on the pool. While Postgres answers anything it is
 * slow, not down: on an overloaded machine a request may wait longer. A request that arrives during
 * an outage waits no longer than one silence.
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
    const look = () => {
      if (isOver) return;
      const answeredAt = Math.max(startedAt, lastAnswerAt(database));
      const restMs = answeredAt + maxSilenceMs - performance.now();
      if (restMs > 0) wait(restMs);
      else reject(new SilenceError(`Postgres has not answered for ${maxSilenceMs} ms`));
    };
    // After a blocked event loop timers come before the answers that have arrived meanwhile.
    const wait = (ms: number) => {
      timer = setTimeout(setImmediate, ms, look);
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
