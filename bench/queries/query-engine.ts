import type { Purchase } from '../../src/domain/purchase.ts';
import type {
  PurchaseEngine,
  PurchasePage,
  PurchaseReader,
  PurchaseStats,
} from '../../src/domain/purchase-engine.ts';
import type { PurchaseListQuery, PurchaseStatsQuery } from '../../src/domain/purchase-query.ts';

/** The queries that benchmarks compare. */
export type ComparedQueries = {
  list(organizationId: bigint, query: PurchaseListQuery): Promise<PurchasePage>;
  get(organizationId: bigint, purchaseId: bigint): Promise<Purchase | null>;
  stats(organizationId: bigint, query: PurchaseStatsQuery): Promise<PurchaseStats>;
};

/** A purchase engine over data that do not change. */
export function createQueryEngine({ list, get, stats }: ComparedQueries): PurchaseEngine {
  const asOf = BigInt(Date.now()) * 1000n;
  const reader: PurchaseReader = {
    list: async (organizationId, query) => ({ result: await list(organizationId, query), asOf }),
    get: async (organizationId, id) => ({ result: await get(organizationId, id), asOf }),
    stats: async (organizationId, query) => ({ result: await stats(organizationId, query), asOf }),
    freshness: async () => asOf,
    version: async () => null,
    waitUntilFresh: async () => {},
    export: async () => {
      throw new Error('benchmarks do not compare exports');
    },
  };
  return { ...reader, forSource: () => reader, close: async () => {} };
}
