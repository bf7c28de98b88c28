import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import type { PurchaseReader } from '../../domain/purchase-engine.ts';
import { ApiError } from '../response/errors.ts';
import { signalOf } from './client-disconnect.ts';
import { instant, readParameters } from './parameters.ts';

/** The request header with the instant that the response must show. */
export const minimumAsOfHeader = 'X-Min-Data-As-Of';

const schema = z.object({ [minimumAsOfHeader]: instant('lower').optional() });

/** The minimum instant of a request, for the purchases of its organization. */
export type FreshnessRequirement = {
  readonly minimum: bigint;
  readonly organizationId: bigint;
  readonly purchases: PurchaseReader;
  readonly request: FastifyRequest;
};

/** Null without the header. Throws if its value is no instant. */
export function readFreshnessRequirement(
  request: FastifyRequest,
  purchases: PurchaseReader,
): FreshnessRequirement | null {
  // Node joins repeated headers with commas, which no instant contains.
  const value = request.headers[minimumAsOfHeader.toLowerCase()];
  if (value === undefined) return null;
  const { [minimumAsOfHeader]: minimum } = readParameters(schema, {
    [minimumAsOfHeader]: String(value),
  });
  if (minimum === undefined) return null;
  return { minimum, organizationId: request.credential.organizationId, purchases, request };
}

export type MinimumFreshness = {
  /**
   * Calls `respond` once the purchases show `minimum` or later. Rejects with conflict after the
   * maximum wait.
   */
  respondWhenFresh<Response>(
    requirement: FreshnessRequirement,
    respond: () => Promise<Response>,
  ): Promise<Response>;
  /** Resolves once the purchases show `minimum` or later. Rejects as `respondWhenFresh` does. */
  wait(requirement: FreshnessRequirement): Promise<void>;
  /** Throws conflict if `asOf` is earlier than the minimum. */
  requireFresh(asOf: bigint, requirement: FreshnessRequirement): void;
  /** Ends all waits as if the maximum wait were over. */
  stopWaiting(): void;
};

export function createMinimumFreshness(maxWaitMs: number): MinimumFreshness {
  const deadlines = new Set<AbortController>();
  let isStopping = false;

  const requireFresh = (asOf: bigint, { minimum }: FreshnessRequirement) => {
    if (asOf >= minimum) return;
    throw new ApiError(
      'conflict',
      `The data are as of ${formatInstant(asOf)} and did not become as fresh as ${formatInstant(minimum)}, ` +
        `which ${minimumAsOfHeader} asks for, within ${maxWaitMs} ms. Please try again.`,
      { param: minimumAsOfHeader, asOf },
    );
  };

  /** Runs `work` with a function that waits. All its waits share the maximum wait. */
  const withDeadline = async <Result>(
    requirement: FreshnessRequirement,
    work: (wait: () => Promise<void>) => Promise<Result>,
  ): Promise<Result> => {
    const { minimum, organizationId, purchases, request } = requirement;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), maxWaitMs);
    deadlines.add(deadline);
    if (isStopping) deadline.abort();
    const disconnect = signalOf(request);
    const signal = AbortSignal.any([disconnect, deadline.signal]);
    const wait = async () => {
      try {
        await purchases.waitUntilFresh(organizationId, minimum, signal);
      } catch (error) {
        if (!deadline.signal.aborted || disconnect.aborted) throw error;
        requireFresh((await purchases.freshness(organizationId)) ?? 0n, requirement);
      }
    };
    try {
      return await work(wait);
    } finally {
      clearTimeout(timer);
      deadlines.delete(deadline);
    }
  };

  return {
    respondWhenFresh: (requirement, respond) =>
      withDeadline(requirement, async (wait) => {
        const { minimum, organizationId, purchases } = requirement;
        for (;;) {
          await wait();
          const version = await purchases.version(organizationId);
          if (version !== null && version.asOf < minimum) continue;
          const [outcome] = await Promise.allSettled([respond()]);
          // While Postgres served the response, a first generation that is older than `minimum`
          // may have been published.
          if (version === null && (await purchases.version(organizationId)) !== null) continue;
          if (outcome.status === 'rejected') throw outcome.reason;
          return outcome.value;
        }
      }),
    wait: (requirement) => withDeadline(requirement, (wait) => wait()),
    requireFresh,
    stopWaiting() {
      isStopping = true;
      for (const deadline of deadlines) deadline.abort();
    },
  };
}
