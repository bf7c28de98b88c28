import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import type { PurchaseAnswers } from '../../domain/purchase-engine.ts';
import { ApiError } from '../response/errors.ts';
import { signalOf } from './client-disconnect.ts';
import { instant, readParameters } from './parameters.ts';

/** Header of a request: how fresh its answer must be at least. */
export const minimumAsOfHeader = 'X-Min-Data-As-Of';

const schema = z.object({ [minimumAsOfHeader]: instant('lower').optional() });

/** Null where the request does not ask; rejects what is no instant, or several. */
export function readAskedFreshness(
  request: FastifyRequest,
  purchases: PurchaseAnswers,
): AskedFreshness | null {
  // Node joins what is sent repeatedly with commas, which no instant has.
  const given = request.headers[minimumAsOfHeader.toLowerCase()];
  if (given === undefined) return null;
  const { [minimumAsOfHeader]: minimum } = readParameters(schema, {
    [minimumAsOfHeader]: String(given),
  });
  if (minimum === undefined) return null;
  return { minimum, organizationId: request.credential.organizationId, purchases, request };
}

export type FreshAnswers = {
  /**
   * What `answer` gives once the organization's purchases are of `minimum` or later.
   * Rejects with conflict where that takes longer than may be waited.
   */
  atLeast<Answer>(asked: AskedFreshness, answer: () => Promise<Answer>): Promise<Answer>;
  /** Resolves once they are of `minimum` or later; rejects as `atLeast` does. */
  reach(asked: AskedFreshness): Promise<void>;
  /** Throws conflict where what shows `asOf` is older than was asked for. */
  requireFresh(asOf: bigint, asked: AskedFreshness): void;
  /** Ends all waiting, as if the time were up. */
  stopWaiting(): void;
};

/** A request's minimum, of whose purchases. */
export type AskedFreshness = {
  readonly minimum: bigint;
  readonly organizationId: bigint;
  readonly purchases: PurchaseAnswers;
  readonly request: FastifyRequest;
};

export function createFreshAnswers(longestWaitMs: number): FreshAnswers {
  const waiting = new Set<AbortController>();
  let isStopping = false;

  const requireFresh = (freshness: bigint, { minimum }: AskedFreshness) => {
    if (freshness >= minimum) return;
    throw new ApiError(
      'conflict',
      `The data are as of ${formatInstant(freshness)} and did not become as fresh as ${formatInstant(minimum)}, ` +
        `which ${minimumAsOfHeader} asks for, within ${longestWaitMs} ms. Please try again.`,
      { param: minimumAsOfHeader, asOf: freshness },
    );
  };

  /** Gives `use` what waits, for as long as may be waited in all. */
  const whileTimeIsLeft = async <Result>(
    asked: AskedFreshness,
    use: (reach: () => Promise<void>) => Promise<Result>,
  ): Promise<Result> => {
    const { minimum, organizationId, purchases, request } = asked;
    const timeIsUp = new AbortController();
    const timer = setTimeout(() => timeIsUp.abort(), longestWaitMs);
    waiting.add(timeIsUp);
    if (isStopping) timeIsUp.abort();
    const leaving = signalOf(request);
    const signal = AbortSignal.any([leaving, timeIsUp.signal]);
    const reach = async () => {
      try {
        await purchases.reach(organizationId, minimum, signal);
      } catch (error) {
        if (!timeIsUp.signal.aborted || leaving.aborted) throw error;
        // Unless the data turn out to be fresh enough after all.
        requireFresh((await purchases.freshness(organizationId)) ?? 0n, asked);
      }
    };
    try {
      return await use(reach);
    } finally {
      clearTimeout(timer);
      waiting.delete(timeIsUp);
    }
  };

  return {
    atLeast: (asked, answer) =>
      whileTimeIsLeft(asked, async (reach) => {
        const { minimum, organizationId, purchases } = asked;
        for (;;) {
          await reach();
          const version = await purchases.version(organizationId);
          if (version !== null && version.asOf < minimum) continue;
          const [answered] = await Promise.allSettled([answer()]);
          // While the answer came from Postgres the first generation may have taken over,
          // which may be older than what was waited for.
          if (version === null && (await purchases.version(organizationId)) !== null) continue;
          if (answered.status === 'rejected') throw answered.reason;
          return answered.value;
        }
      }),
    reach: (asked) => whileTimeIsLeft(asked, (reach) => reach()),
    requireFresh,
    stopWaiting() {
      isStopping = true;
      for (const timeIsUp of waiting) timeIsUp.abort();
    },
  };
}
