import type { FastifyReply } from 'fastify';
import {
  type RateLimiterAbstract,
  RateLimiterMemory,
  RateLimiterPostgres,
  RateLimiterRes,
} from 'rate-limiter-flexible';
import type { Database } from '../postgres/pool.ts';
import { ApiError } from './errors.ts';

const windowSeconds = 60;

export type RateLimitOptions = {
  /** What is counted; also keeps the counts of several limits apart. */
  readonly name: 'requests' | 'failed keys';
  readonly perMinute: number;
  /** Whether every answer tells how much is left, or only the refusal does. */
  readonly isAnnounced: boolean;
  /** Where several API processes count together; this process alone where there is none. */
  readonly sharedIn: Database | undefined;
  /** Told to whoever goes beyond the limit. */
  readonly message: string;
};

export type RateLimit = {
  /**
   * Counts one event of `who` and writes the headers of section 8. Rejects with
   * rate_limited once the window's events are used up. A window begins with its
   * first event and lasts a minute.
   */
  count(who: string, reply: FastifyReply): Promise<void>;
};

export function createRateLimit(options: RateLimitOptions): RateLimit {
  const { name, perMinute, isAnnounced, sharedIn, message } = options;
  const common = { points: perMinute, duration: windowSeconds, keyPrefix: name };
  const limiter: RateLimiterAbstract =
    sharedIn === undefined
      ? new RateLimiterMemory(common)
      : new RateLimiterPostgres({
          ...common,
          storeClient: sharedIn,
          storeType: 'pool',
          tableName: 'rate_limits',
          tableCreated: true,
          clearExpiredByTimeout: true,
        });
  return {
    async count(who, reply) {
      const used = await limiter.consume(who).catch((refused: unknown) => refused);
      // Anything but a result is a failure of the limiter itself.
      if (!(used instanceof RateLimiterRes)) throw used;
      const isExceeded = used.consumedPoints > perMinute;
      if (!isAnnounced && !isExceeded) return;
      const endsAt = new Date(Date.now() + used.msBeforeNext);
      reply
        .header('X-RateLimit-Limit', perMinute)
        .header('X-RateLimit-Remaining', Math.max(0, used.remainingPoints))
        .header('X-RateLimit-Reset', endsAt.toISOString());
      if (!isExceeded) return;
      const retryAfter = Math.max(1, Math.ceil(used.msBeforeNext / 1000));
      throw new ApiError('rate_limited', message, { retryAfter });
    },
  };
}
