/** After this time without a request, an organization does not count. */
const recentMs = 60_000;

/** The instants that recent requests found, by organization. */
export type ServedInstants = {
  record(organizationId: bigint, asOf: bigint): void;
  /**
   * The oldest instant of an organization that was requested in the last minute; null if none was.
   * It has the age that it had at the last request.
   */
  oldest(): bigint | null;
};

export function createServedInstants(): ServedInstants {
  /** The most recently requested organization is last. */
  const served = new Map<bigint, { readonly asOf: bigint; readonly at: number }>();
  const removeOld = () => {
    for (const [organizationId, { at }] of served) {
      if (Date.now() - at <= recentMs) return;
      served.delete(organizationId);
    }
  };
  return {
    record(organizationId, asOf) {
      served.delete(organizationId);
      served.set(organizationId, { asOf, at: Date.now() });
      removeOld();
    },
    oldest() {
      removeOld();
      let oldest: bigint | null = null;
      for (const { asOf, at } of served.values()) {
        const instant = asOf + BigInt(Date.now() - at) * 1000n;
        if (oldest === null || instant < oldest) oldest = instant;
      }
      return oldest;
    },
  };
}
