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

type CounterOptions = {
  /** The prefix of the counter's rows or entries. */
  readonly name: 'requests' | 'failed keys';
  readonly perMinute: number;
  /** The database in which several API processes count; in memory if undefined. */
  readonly sharedIn: Database | undefined;
};

export function createCounter({ name, perMinute, sharedIn }: CounterOptions): Counter {
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

type RateLimitOptions = {
  readonly limit: Limit;
  readonly perMinute: number;
  /** Whether responses have the headers `X-RateLimit-*`, which describe a key. */
  readonly hasHeaders: boolean;
  /** The error message beyond the limit. */
  readonly message: string;
};

/** Sets the headers of section 8; throws rate_limited beyond the limit. */
type RateLimit = (usage: Usage, reply: FastifyReply) => void;

export function createRateLimit({
  limit,
  perMinute,
  hasHeaders,
  message,
}: RateLimitOptions): RateLimit {
  return ({ events, endsAt }, reply) => {
    if (hasHeaders) {
      reply
        .header('X-RateLimit-Limit', perMinute)
        .header('X-RateLimit-Remaining', Math.max(0, perMinute - events))
        .header('X-RateLimit-Reset', new Date(endsAt).toISOString());
    }
    if (events <= perMinute) return;
    const retryAfter = Math.max(1, Math.ceil((endsAt - Date.now()) / 1000));
    throw new ApiError('rate_limited', message, { retryAfter, limit });
  };
}
