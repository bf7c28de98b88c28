import type { Platform } from '../../src/domain/purchase.ts';
import { trackingLabels } from '../../src/domain/purchase.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import {
  isUnfiltered,
  type PurchaseFilters,
  type StatsDimension,
  statsDimensions,
} from '../../src/domain/purchase-query.ts';
import type { Database } from '../../src/postgres/pool.ts';
import {
  deepPurchase,
  listQuery,
  type PurchaseQuery,
  singleQuery,
  statsQuery,
} from '../queries/purchase-queries.ts';

/** The minimal time of ClickHouse, divided by the time of the service. */
export const targets = {
  'unfiltered statistics': 2.5,
  'filtered statistics': 1,
  'lists, one purchase': 1.5,
} as const;
export type QueryKind = keyof typeof targets;

export type ComparedQuery = PurchaseQuery & { readonly kind: QueryKind };

/** Statistics by every dimension and of every filter, lists of every depth, one purchase. */
export async function comparedQueries(
  organizationId: bigint,
  database: Database,
  duckdb: PurchaseEngine,
): Promise<ComparedQuery[]> {
  const deep = await deepPurchase(organizationId, database);
  const filtered = Object.entries(await filtersOf(organizationId, duckdb, deep.customer_id));
  const stats = (name: string, filters: PurchaseFilters, groupBy?: StatsDimension) => ({
    kind: isUnfiltered(filters)
      ? ('unfiltered statistics' as const)
      : ('filtered statistics' as const),
    ...statsQuery(organizationId, name, filters, groupBy),
  });
  const list = (
    ...query: [string, PurchaseFilters, { limit?: number; startingAfter?: bigint }?]
  ) => ({
    kind: 'lists, one purchase' as const,
    ...listQuery(organizationId, ...query),
  });
  return [
    ...[undefined, ...statsDimensions].map((by) => stats('', {}, by)),
    ...filtered.flatMap(([name, filters]) =>
      ([undefined, 'day', 'utm_campaign'] as const).map((by) => stats(name, filters, by)),
    ),
    list('first page', {}),
    list('first page of 100', {}, { limit: 100 }),
    list('deep page', {}, { startingAfter: deep.id }),
    ...filtered
      // Lists have no filters of tracking values (section 4.2).
      .filter(([, filters]) => trackingLabels.every((label) => filters[label] === undefined))
      .map(([name, filters]) => list(`first page of ${name}`, filters)),
    list('deep page of paid', { paymentStatus: 'paid' }, { startingAfter: deep.id }),
    { kind: 'lists, one purchase', ...singleQuery(organizationId, deep.id) },
  ];
}

/** Each filter once, with frequent values of the demo data. */
async function filtersOf(
  organizationId: bigint,
  duckdb: PurchaseEngine,
  customerId: bigint,
): Promise<Record<string, PurchaseFilters>> {
  const mostCommon = async (groupBy: StatsDimension): Promise<string> => {
    const query = { filters: {}, groupLimit: 2, groupBy };
    const { groups } = (await duckdb.stats(organizationId, query)).result;
    const key = groups.find((group) => group.key !== null)?.key;
    if (key == null) throw new Error(`no purchase has a ${groupBy}`);
    return key;
  };
  const microseconds = (date: string) => BigInt(Date.parse(date)) * 1000n;
  return {
    'one customer': { customerId },
    paid: { paymentStatus: 'paid' },
    'one platform': { platform: (await mostCommon('platform')) as Platform },
    'one month': {
      createdSince: microseconds('2025-10-01T00:00:00Z'),
      createdUntil: microseconds('2025-11-01T00:00:00Z') - 1n,
    },
    'a range of values': { minValueInCents: 10_000n, maxValueInCents: 20_000n },
    'one utm_source': { utm_source: await mostCommon('utm_source') },
    'one utm_campaign': { utm_campaign: await mostCommon('utm_campaign') },
  };
}
