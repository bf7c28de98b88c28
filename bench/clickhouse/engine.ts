import sql, { empty, join, raw, type Sql } from 'sql-template-tag';
import {
  type Purchase,
  type PurchaseLabel,
  purchaseColumns,
  purchaseFromRow,
} from '../../src/domain/purchase.ts';
import {
  emptyStats,
  type PurchaseEngine,
  type PurchasePage,
  type PurchaseStats,
  UnknownCursorError,
} from '../../src/domain/purchase-engine.ts';
import {
  conditionsOf,
  type PurchaseFilters,
  type PurchaseListQuery,
  type PurchaseStatsQuery,
  type StatsDimension,
} from '../../src/domain/purchase-query.ts';
import type {
  ClickHouse,
  ClickHouseRow,
  ClickHouseValue,
} from '../../src/engines/clickhouse/client.ts';
import { filterConditions } from '../../src/engines/filter-conditions.ts';
import { createQueryEngine } from '../queries/query-engine.ts';

/**
 * Queries the organization that `loadClickHouse` has loaded, with the fastest statements that were
 * found for ClickHouse.
 */
export const createClickHouseEngine = (clickhouse: Pick<ClickHouse, 'query'>): PurchaseEngine =>
  createQueryEngine({
    list: (_organizationId, query) => list(clickhouse, query),
    async get(_organizationId, purchaseId) {
      return (await readPurchases(clickhouse, sql`where id = ${purchaseId}`))[0] ?? null;
    },
    stats: (_organizationId, query) => stats(clickhouse, query),
  });

const instant = (microseconds: bigint): Sql =>
  sql`fromUnixTimestamp64Micro(${microseconds}, 'UTC')`;

const conditions = filterConditions(instant);

function whereOf(filters: PurchaseFilters, more: readonly Sql[] = []): Sql {
  const all = [...conditionsOf(filters, conditions), ...more];
  return all.length === 0 ? empty : sql`where ${join(all, ' and ')}`;
}

async function list(
  clickhouse: Pick<ClickHouse, 'query'>,
  { filters, limit, startingAfter }: PurchaseListQuery,
): Promise<PurchasePage> {
  const after = startingAfter === undefined ? [] : [await afterCursor(clickhouse, startingAfter)];
  const purchases = await readPurchases(
    clickhouse,
    sql`${whereOf(filters, after)} order by created_at desc, id desc limit ${raw(String(limit + 1))}`,
  );
  return { purchases: purchases.slice(0, limit), hasMore: purchases.length > limit };
}

/** Two comparisons use the primary key; a comparison of tuples does not. */
async function afterCursor(
  clickhouse: Pick<ClickHouse, 'query'>,
  cursor: NonNullable<PurchaseListQuery['startingAfter']>,
): Promise<Sql> {
  const purchaseId = typeof cursor === 'bigint' ? cursor : cursor.id;
  const [row] = await clickhouse.query(
    sql`select toUnixTimestamp64Micro(created_at) from purchase where id = ${purchaseId}`,
  );
  if (row === undefined) throw new UnknownCursorError();
  const createdAt = instant(integer(row[0]));
  return sql`created_at <= ${createdAt} and (created_at < ${createdAt} or id < ${purchaseId})`;
}

async function readPurchases(
  clickhouse: Pick<ClickHouse, 'query'>,
  selection: Sql,
): Promise<Purchase[]> {
  const rows = await clickhouse.query(sql`select ${raw(selectList)} from purchase ${selection}`);
  return rows.map((row) => purchaseFromRow(row.map(purchaseValue)));
}

const selectList = purchaseColumns
  .map(({ name, kind }) => (kind === 'instant' ? `toUnixTimestamp64Micro(${name})` : name))
  .join(', ');

const isInteger = purchaseColumns.map(
  ({ kind }) => kind !== 'text' && kind !== 'label' && kind !== 'coupons',
);

function purchaseValue(value: ClickHouseValue, index: number): bigint | string | null {
  if (value === null) return null;
  return isInteger[index] ? integer(value) : String(value);
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
