import type { PurchaseEngine } from '../domain/purchase-engine.ts';

/**
 * Answers from `preferred` as soon as it has an organization's purchases, and
 * from `otherwise` until then.
 */
export function firstAvailable(
  preferred: PurchaseEngine,
  otherwise: PurchaseEngine,
): PurchaseEngine {
  const engineFor = async (organizationId: bigint) =>
    (await preferred.freshness(organizationId)) === null ? otherwise : preferred;

  return {
    list: async (organizationId, query, ...asking) =>
      (await engineFor(organizationId)).list(organizationId, query, ...asking),
    get: async (organizationId, purchaseId, ...asking) =>
      (await engineFor(organizationId)).get(organizationId, purchaseId, ...asking),
    stats: async (organizationId, query, ...asking) =>
      (await engineFor(organizationId)).stats(organizationId, query, ...asking),
    export: async (organizationId, filters, take, signal) =>
      (await engineFor(organizationId)).export(organizationId, filters, take, signal),
    freshness: async (organizationId) =>
      (await engineFor(organizationId)).freshness(organizationId),
    version: async (organizationId) =>
      (await preferred.version(organizationId)) ?? otherwise.version(organizationId),
    onNewVersion: (listener) => preferred.onNewVersion(listener),
    reach: async (organizationId, instant, signal) =>
      (await engineFor(organizationId)).reach(organizationId, instant, signal),
    close: async () => {
      await preferred.close();
      await otherwise.close();
    },
  };
}
