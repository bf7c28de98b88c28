import { oldestOf, type ServedInstants } from '../served-instants.ts';

/** After this time without a request, an organization does not count. */
const recentMs = 60_000;

/** The organizations of recent requests, with the instants that the requests found. */
export type RequestedOrganizations = {
  record(organizationId: bigint, instants: ServedInstants): void;
  /**
   * The earliest instants of the organizations that were requested in the last minute; null if none was.
   * They have the ages that they had at the last request.
   */
  oldest(): ServedInstants | null;
};

export function createRequestedOrganizations(): RequestedOrganizations {
  /** The most recently requested organization is last. */
  const requested = new Map<bigint, { readonly instants: ServedInstants; readonly at: number }>();
  const removeOld = () => {
    for (const [organizationId, { at }] of requested) {
      if (Date.now() - at <= recentMs) return;
      requested.delete(organizationId);
    }
  };
  return {
    record(organizationId, instants) {
      requested.delete(organizationId);
      requested.set(organizationId, { instants, at: Date.now() });
      removeOld();
    },
    oldest() {
      removeOld();
      const aged = [...requested.values()].map(({ instants: { asOf, tickAsOf }, at }) => {
        const since = BigInt(Date.now() - at) * 1000n;
        return { asOf: asOf + since, tickAsOf: tickAsOf + since };
      });
      return oldestOf(aged);
    },
  };
}
