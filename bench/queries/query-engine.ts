import type { Purchase } from '../../src/domain/purchase.ts';
import type {
  PurchaseEngine,
  PurchasePage,
  PurchaseReader,
  PurchaseStats,
  PurchaseTimeSeries,
} from '../../src/domain/purchase-engine.ts';
import type {
  PurchaseListQuery,
  PurchaseStatsQuery,
  PurchaseTimeSeriesQuery,
} from '../../src/domain/purchase-query.ts';

/** The queries that benchmarks compare. */
type ComparedQueries = {
  list(organizationId: bigint, query: PurchaseListQuery): Promise<PurchasePage>;
  get(organizationId: bigint, purchaseId: bigint): Promise<Purchase | null>;
  stats(organizationId: bigint, query: PurchaseStatsQuery): Promise<PurchaseStats>;
  timeSeries?(organizationId: bigint, query: PurchaseTimeSeriesQuery): Promise<PurchaseTimeSeries>;
};

async function notCompared(): Promise<never> {
  throw new Error('benchmarks do not compare this query with other engines');
}

/** A purchase engine over data that do not change. */
export function createQueryEngine({
  list,
  get,
  stats,
  timeSeries = notCompared,
}: ComparedQueries): PurchaseEngine {
  const asOf = BigInt(Date.now()) * 1000n;
  const reader: PurchaseReader = {
    list: async (organizationId, query) => ({ result: await list(organizationId, query), asOf }),
    get: async (organizationId, id) => ({ result: await get(organizationId, id), asOf }),
    stats: async (organizationId, query) => ({ result: await stats(organizationId, query), asOf }),
    freshness: async () => asOf,
    version: async () => null,
    waitUntilFresh: async () => {},
    timeSeries: async (organizationId, query) => ({
      result: await timeSeries(organizationId, query),
      asOf,
    }),
    export: notCompared,
  };
  return { ...reader, forSource: () => reader, close: async () => {} };
}
