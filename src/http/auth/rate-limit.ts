import type { FastifyReply } from 'fastify';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterPostgres,
  RateLimiterRes,
} from 'rate-limiter-flexible';
import type { Usage } from '../../postgres/api-keys.ts';
import type { Database } from '../../postgres/pool.ts';
import { ApiError } from '../response/errors.ts';

/** A window begins with its first event and lasts a minute. */
export const windowMs = 60_000;

/** Counts one event of `who`. */
export type Counter = (who: string) => Promise<Usage>;

export type CounterOptions = {
  /** What is counted; also keeps the counts of several limits apart. */
  readonly name: 'requests' | 'failed keys';
  readonly perMinute: number;
  /** Where several API processes count together; this process alone where there is none. */
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
          // Whoever counted them: the table's rows are the requests' too.
          clearExpiredByTimeout: true,
        });
  return async (who) => {
    const used = await limiter.consume(who).catch((refused: unknown) => refused);
    // Anything but a result is a failure of the limiter itself.
    if (!(used instanceof RateLimiterRes)) throw used;
    return { events: used.consumedPoints, endsAt: Date.now() + used.msBeforeNext };
  };
}

export type RateLimitOptions = {
  readonly perMinute: number;
  /** Whether responses have `X-RateLimit-*`: these are about a key. */
  readonly isAnnounced: boolean;
  /** Told to whoever goes beyond the limit. */
  readonly message: string;
};

/** Writes the headers of section 8 if announced; throws rate_limited if the window's events are used up. */
export type RateLimit = (usage: Usage, reply: FastifyReply) => void;

export function createRateLimit({ perMinute, isAnnounced, message }: RateLimitOptions): RateLimit {
  return ({ events, endsAt }, reply) => {
    if (isAnnounced) {
      reply
        .header('X-RateLimit-Limit', perMinute)
        .header('X-RateLimit-Remaining', Math.max(0, perMinute - events))
        .header('X-RateLimit-Reset', new Date(endsAt).toISOString());
    }
    if (events <= perMinute) return;
    const retryAfter = Math.max(1, Math.ceil((endsAt - Date.now()) / 1000));
    throw new ApiError('rate_limited', message, { retryAfter });
  };
}
