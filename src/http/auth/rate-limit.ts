import type { FastifyReply } from 'fastify';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterPostgres,
  RateLimiterRes,
} from 'rate-limiter-flexible';
import type { Usage } from '../../postgres/api-keys.ts';
import type { Database } from '../../postgres/pool.ts';
import type { Limit } from '../observer.ts';
import { ApiError } from '../response/errors.ts';

/** The length of a window, which begins with its first event. */
export const windowMs = 60_000;

/** Counts one event of a key or an address. */
type Counter = (id: string) => Promise<Usage>;

export function createCounter({
  name,
  perMinute,
  sharedIn,
}: {
  /** The prefix of the counter's rows or entries. */
  readonly name: 'requests' | 'failed keys';
  readonly perMinute: number;
  /** The database in which several API processes count; in memory if undefined. */
  readonly sharedIn: Database | undefined;
}): Counter {
  const common = { points: perMinute, duration: windowMs / 1000, keyPrefix: name };
  const limiter: RateLimiterAbstract =
    sharedIn === undefined
      ? new RateLimiterMemory(common)
      : new RateLimiterPostgres({
          ...common,
          storeClient: sharedIn,
          storeType: 'pool',
          tableName: 'rate_limits',
          tableCreated: true,
          // Deletes expired rows of all limits.
          clearExpiredByTimeout: true,
        });
  return async (id) => {
    const used = await limiter.consume(id).catch((refused: unknown) => refused);
    // `consume` also rejects with a result if the limit is exceeded.
    if (!(used instanceof RateLimiterRes)) throw used;
    return { events: used.consumedPoints, endsAt: Date.now() + used.msBeforeNext };
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

/** Throws rate_limited beyond the limit. */
export function requireWithinLimit(
  perMinute: number,
  { events, endsAt }: Usage,
  limit: Limit,
  message: string,
): void {
  if (events <= perMinute) return;
  const retryAfter = Math.max(1, Math.ceil((endsAt - Date.now()) / 1000));
  throw new ApiError('rate_limited', message, { retryAfter, limit });
}
