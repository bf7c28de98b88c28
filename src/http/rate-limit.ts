import type { FastifyReply } from 'fastify';
import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible';
import { ApiError } from './errors.ts';

const windowSeconds = 60;

export type RateLimit = {
  /**
   * Counts one request of a key and writes the headers of section 8. Rejects
   * with rate_limited once the window's requests are used up.
   */
  count(keyId: bigint, reply: FastifyReply): Promise<void>;
};

/** So many requests a minute per key, from the key's first request on. */
export function createRateLimit(requestsPerMinute: number): RateLimit {
  const limiter = new RateLimiterMemory({ points: requestsPerMinute, duration: windowSeconds });
  return {
    async count(keyId, reply) {
      const used = await limiter.consume(String(keyId)).catch((refused: unknown) => refused);
      // Anything but a result is a failure of the limiter itself.
      if (!(used instanceof RateLimiterRes)) throw used;
      const endsAt = new Date(Date.now() + used.msBeforeNext);
      reply
        .header('X-RateLimit-Limit', requestsPerMinute)
        .header('X-RateLimit-Remaining', Math.max(0, used.remainingPoints))
        .header('X-RateLimit-Reset', endsAt.toISOString());
      if (used.consumedPoints <= requestsPerMinute) return;
      const retryAfter = Math.max(1, Math.ceil(used.msBeforeNext / 1000));
      reply.header('Retry-After', retryAfter);
      throw new ApiError(
        'rate_limited',
        `This API key has used its ${requestsPerMinute} requests of the current minute.`,
        { retryAfter },
      );
    },
  };
}
