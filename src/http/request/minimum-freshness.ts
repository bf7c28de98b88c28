import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import type { PurchaseReader } from '../../domain/purchase-engine.ts';
import { ApiError } from '../response/errors.ts';
import { signalOf } from './client-disconnect.ts';
import { instant } from './parameters.ts';
import { readParameters } from './read-parameters.ts';

/** The request header with the instant that the response must show. */
export const minimumAsOfHeader = 'X-Min-Data-As-Of';

const schema = z.object({ [minimumAsOfHeader]: instant('lower').optional() });

type Purchases = Pick<PurchaseReader, 'freshness' | 'version' | 'waitUntilFresh'>;

/** The minimum instant of a request, if it has one, for the purchases of its organization. */
type FreshnessRequirement = {
  readonly minimum: bigint | undefined;
  readonly organizationId: bigint;
  readonly purchases: Purchases;
  readonly request: FastifyRequest;
};

/** Throws if the value of the header is no instant. */
export function readFreshnessRequirement(
  request: FastifyRequest,
  purchases: Purchases,
): FreshnessRequirement {
  // Node joins repeated headers with commas, which no instant contains.
  const value = request.headers[minimumAsOfHeader.toLowerCase()];
  const given = value === undefined ? {} : { [minimumAsOfHeader]: String(value) };
  const { [minimumAsOfHeader]: minimum } = readParameters(schema, given);
  return { minimum, organizationId: request.credential.organizationId, purchases, request };
}

export type MinimumFreshness = {
  /**
   * Without a minimum, calls `respond`. Otherwise calls it once the purchases show `minimum` or later,
   * and again if its data prove to be older: while Postgres served it, an older first generation may
   * have been published. `respond` passes the instant of its data to `requireFresh`. Rejects with
   * conflict after the maximum wait.
   */
  respondWhenFresh<Response>(
    requirement: FreshnessRequirement,
    respond: (requireFresh: (asOf: bigint) => void) => Promise<Response>,
  ): Promise<Response>;
  /** Ends all waits as if the maximum wait were over. */
  stopWaiting(): void;
};

class StaleDataError extends Error {}

export function createMinimumFreshness(maxWaitMs: number): MinimumFreshness {
  const deadlines = new Set<AbortController>();
  let isStopping = false;

  const conflict = (asOf: bigint, minimum: bigint) =>
    new ApiError(
      'conflict',
      `The data are as of ${formatInstant(asOf)} and did not become as fresh as ${formatInstant(minimum)}, ` +
        `which ${minimumAsOfHeader} requires, within ${maxWaitMs} ms. Please try again.`,
      { param: minimumAsOfHeader, asOf },
    );

  return {
    async respondWhenFresh(requirement, respond) {
      const { minimum, organizationId, purchases, request } = requirement;
      if (minimum === undefined) return respond(() => {});
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), maxWaitMs);
      deadlines.add(deadline);
      if (isStopping) deadline.abort();
      const disconnect = signalOf(request);
      const wait = async () => {
        try {
          const signal = AbortSignal.any([disconnect, deadline.signal]);
          await purchases.waitUntilFresh(organizationId, minimum, signal);
        } catch (error) {
          if (!deadline.signal.aborted || disconnect.aborted) throw error;
          const asOf = (await purchases.freshness(organizationId)) ?? 0n;
          if (asOf < minimum) throw conflict(asOf, minimum);
        }
      };
      const requireFresh = (asOf: bigint) => {
        if (asOf < minimum) throw new StaleDataError();
      };
      try {
        for (;;) {
          await wait();
          const version = await purchases.version(organizationId);
          if (version !== null && version.asOf < minimum) continue;
          try {
            return await respond(requireFresh);
          } catch (error) {
            if (error instanceof StaleDataError) continue;
            // The older generation may lack a purchase and fail.
            if (version === null && (await purchases.version(organizationId)) !== null) continue;
            throw error;
          }
        }
      } finally {
        clearTimeout(timer);
        deadlines.delete(deadline);
      }
    },
    stopWaiting() {
      isStopping = true;
      for (const deadline of deadlines) deadline.abort();
    },
  };
}
