import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../src/domain/purchase.ts';
import type { PurchaseStats } from '../../src/domain/purchase-engine.ts';
import {
  conditionsOf,
  type PurchaseFilters,
  type PurchaseStatsQuery,
  type StatsDimension,
} from '../../src/domain/purchase-query.ts';
import type {
  ClickHouse,
  ClickHouseRow,
  ClickHouseValue,
} from '../../src/engines/clickhouse/client.ts';
import { couponConditions } from '../../src/engines/clickhouse/coupons.ts';
import { localUnits } from '../../src/engines/clickhouse/local-units.ts';
import { filterConditions } from '../../src/engines/filter-conditions.ts';
import type { QueryEngine } from '../queries/purchase-queries.ts';

const emptyStats: PurchaseStats = {
  ...{ purchaseCount: 0n, customerCount: 0n, revenueInCents: 0n },
  ...{ currency: null, mixedCurrencies: false, groups: [], groupsTruncated: false },
};

const notCompared = () => Promise.reject(new Error('only statistics are compared'));

/**
 * Statistics of the organization that `loadClickHouse` has loaded, with the fastest statements that
 * were found for ClickHouse.
 */
export const createPlainStatistics = (clickhouse: Pick<ClickHouse, 'query'>): QueryEngine => ({
  stats: async (_organizationId, query) => ({
    result: await stats(clickhouse, query),
    asOf: 0n,
    version: null,
  }),
  list: notCompared,
  get: notCompared,
  timeSeries: notCompared,
});

const conditions = filterConditions({
  instant: (microseconds) => sql`fromUnixTimestamp64Micro(${microseconds}, 'UTC')`,
  localUnits,
  coupons: couponConditions,
});

function whereOf(filters: PurchaseFilters): Sql {
  const all = conditionsOf(filters, conditions);
  return all.length === 0 ? empty : sql`where ${join(all, ' and ')}`;
}

/** The whole result in one statement. */
async function stats(
  clickhouse: Pick<ClickHouse, 'query'>,
  { filters, groupBy, groupLimit }: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const where = whereOf(filters);
  if (groupBy === undefined) {
    const [row] = await clickhouse.query(sql`
      select count(), sum(purchase_value_in_cents), ${distinct} from purchase ${where}`);
    return row === undefined ? emptyStats : totalsOf(row);
  }
  // Groups add up to the totals. Customers and currencies, which several groups share, do not.
  const rows = await clickhouse.query(sql`
    select sum(purchases) over (), sum(revenue) over (),
      (select ${distinct} from purchase ${where}) as distinct,
      key, purchases, revenue
    from (
      select ${raw(keys[groupBy])} as key, count() as purchases,
        sum(purchase_value_in_cents) as revenue
      from purchase ${where}
      group by key
    )
    order by revenue desc, purchases desc, key asc nulls last
    limit ${raw(String(groupLimit + 1))}`);
  const [first] = rows;
  if (first === undefined) return emptyStats;
  return {
    ...totalsOf(first),
    groups: rows.slice(0, groupLimit).map(([, , , key, purchases, revenue]) => ({
      key: key as string | null,
      purchaseCount: integer(purchases),
      revenueInCents: integer(revenue),
    })),
    groupsTruncated: rows.length > groupLimit,
  };
}

// Two currencies are enough to know that they are mixed.
const distinct = raw('tuple(uniqExact(customer_id), groupUniqArray(2)(currency))');

function totalsOf([purchases, revenue, distinct]: ClickHouseRow): PurchaseStats {
  const [customers, currencies] = distinct as readonly [string, readonly string[]];
  return {
    ...emptyStats,
    purchaseCount: integer(purchases),
    customerCount: integer(customers),
    revenueInCents: integer(revenue),
    currency: currencies.length === 1 ? (currencies[0] ?? null) : null,
    mixedCurrencies: currencies.length > 1,
  };
}

const keys: Readonly<Record<StatsDimension, PurchaseLabel | 'toDate(created_at)'>> = {
  status: 'payment_status',
  platform: 'platform',
  currency: 'currency',
  day: 'toDate(created_at)',
  utm_source: 'utm_source',
  utm_medium: 'utm_medium',
  utm_campaign: 'utm_campaign',
  utm_content: 'utm_content',
  utm_term: 'utm_term',
};

function integer(value: ClickHouseValue | undefined): bigint {
  if (typeof value !== 'string' && typeof value !== 'number') {
    throw new Error(`not an integer: ${JSON.stringify(value)}`);
  }
  return BigInt(value);
}
