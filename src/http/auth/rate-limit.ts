import type { FastifyReply } from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import type { Database } from '../../postgres/connection/pool.ts';
import { countEvent, deleteOldCounts, type Usage } from '../../postgres/keys/rate-limits.ts';
import type { Limit } from '../observer.ts';
import { ApiError } from '../response/errors.ts';

/** The length of a window, which begins with its first event. */
export const windowMs = 60_000;

const cleanUpIntervalMs = 300_000;

/** Counts one event of a key or an address. */
type Counter = (id: string) => Promise<Usage>;

export function createCounter({
  name,
  perMinute,
  sharedIn,
}: {
  /** The prefix of the counter's rows. */
  readonly name: 'requests' | 'failed keys';
  readonly perMinute: number;
  /** The database in which several API processes count; in memory if undefined. */
  readonly sharedIn: Database | undefined;
}): Counter {
  if (sharedIn !== undefined) {
    const cleanUp = () => void deleteOldCounts(sharedIn).catch(() => {});
    setInterval(cleanUp, cleanUpIntervalMs).unref();
    return (id) => countEvent(sharedIn, `${name}:${id}`, windowMs);
  }
  const limiter = new RateLimiterMemory({ points: perMinute, duration: windowMs / 1000 });
  return async (id) => {
    const used = await limiter.consume(id).catch((refused: unknown) => refused);
    // `consume` also rejects with a result if the limit is exceeded.
    if (!(used instanceof RateLimiterRes)) throw used;
    // Longer than a window if the clock has gone back. A timer ends the window in any case.
    const restMs = Math.min(used.msBeforeNext, windowMs);
    return { events: used.consumedPoints, endsAt: Date.now() + restMs, restMs };
  };
}

/** Sets the headers of section 8, which describe a key. */
export function setRateLimitHeaders(
  reply: FastifyReply,
  perMinute: number,
  { events, endsAt }: Usage,
): void {
  reply
    .header('X-RateLimit-Limit', perMinute)
    .header('X-RateLimit-Remaining', Math.max(0, perMinute - events))
    .header('X-RateLimit-Reset', new Date(endsAt).toISOString());
}

/** Of a response to a key that has become invalid meanwhile: without a valid key, there is no limit to state. */
export function removeRateLimitHeaders(reply: FastifyReply): void {
  for (const name of ['Limit', 'Remaining', 'Reset']) reply.removeHeader(`X-RateLimit-${name}`);
}

/** Throws rate_limited beyond the limit. */
export function requireWithinLimit(
  perMinute: number,
  { events, restMs }: Usage,
  limit: Limit,
  message: string,
): void {
  if (events <= perMinute) return;
  const retryAfter = Math.max(1, Math.ceil(restMs / 1000));
  throw new ApiError('rate_limited', message, { retryAfter, limit });
}
