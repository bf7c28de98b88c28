import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import { intervalLengths } from '../../domain/period.ts';
import type { PurchaseGroup, PurchaseStats, PurchaseTotals } from '../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
} from '../../domain/purchase-query.ts';
import { type ZoneOffset, zoneOffsets } from '../../domain/time-zone.ts';
import { offsetExpression } from '../zone-offsets.ts';
import type { ClickHouse } from './client.ts';
import {
  countedParts,
  currentPurchases,
  type Generation,
  groupedPurchases,
  hasChanges,
  inBase,
  inChanges,
} from './relations.ts';

export async function purchaseStats(
  clickhouse: ClickHouse,
  generation: Generation,
  query: PurchaseStatsQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseStats> {
  const { filters, groupLimit } = query;
  const [totals, groups] = await Promise.all([
    readTotals(clickhouse, generation, filters, signal),
    readGroups(clickhouse, generation, query, signal),
  ]);
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

async function readTotals(
  clickhouse: ClickHouse,
  generation: Generation,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): Promise<PurchaseTotals> {
  const parts = countedParts(
    generation,
    filters,
    { currency: raw('currency') },
    { withCustomers: true },
  );
  const byCurrency = raw('sumMapIf(map(assumeNotNull(currency), purchases), currency is not null)');
  const statement = sql`
    select sum(purchases), sum(cents), uniqExactMerge(customers),
      arraySlice(mapKeys(mapFilter((name, count) -> count > 0, ${byCurrency})), 1, 2)
    from ${parts}`;
  const [row] = await clickhouse.query(statement, signal);
  const [purchases, revenue, customers, currencies] = (row ?? []) as unknown as [
    string,
    string,
    string,
    string[],
  ];
  return {
    purchaseCount: BigInt(purchases),
    customerCount: BigInt(customers),
    revenueInCents: BigInt(revenue),
    currency: currencies.length === 1 ? (currencies[0] as string) : null,
    mixedCurrencies: currencies.length > 1,
  };
}

async function readGroups(
  clickhouse: ClickHouse,
  generation: Generation,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseGroup[]> {
  if (groupBy === undefined) return [];
  const isDay = groupBy === 'day';
  const key = isDay
    ? localUnits(await dayOffsets(clickhouse, generation, filters, timeZone, signal), 'day')
    : raw(labelOfDimension(groupBy));
  const ranking = groupedPurchases(generation, filters, { key }, { withCustomers: false });
  const rows = await clickhouse.query(
    sql`
      select key, purchase_count, revenue from ${ranking}
      order by revenue desc, purchase_count desc, key asc nulls last
      limit ${raw(String(groupLimit + 1))}`,
    signal,
  );
  return rows.map(([key, purchases, revenue]) => ({
    key: isDay ? dayText(Number(key)) : (key as string | null),
    purchaseCount: BigInt(purchases as string),
    revenueInCents: BigInt(revenue as string),
  }));
}

/** `YYYY-MM-DD` of a number of days since 0001-01-01. */
const dayText = (days: number): string =>
  formatInstant(earliestInstant + BigInt(days) * intervalLengths.day).slice(0, 10);

async function dayOffsets(
  clickhouse: ClickHouse,
  generation: Generation,
  filters: PurchaseFilters,
  timeZone: string | undefined,
  signal: AbortSignal | undefined,
): Promise<readonly ZoneOffset[]> {
  if (timeZone === undefined) return [];
  const bounds = await readWideBounds(clickhouse, generation, filters, signal);
  if (bounds === null) return [];
  return zoneOffsets(timeZone, bounds.first, bounds.last);
}

export type TimeBounds = { readonly first: bigint; readonly last: bigint };

/**
 * The bounds of the instants of matching purchases, also of superseded rows; null if there are
 * none. The filters narrow them.
 */
export function readWideBounds(
  clickhouse: ClickHouse,
  generation: Generation,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): Promise<TimeBounds | null> {
  const inLoad = sql`select created_at ${inBase(generation, filters)}`;
  const rows = hasChanges(generation)
    ? sql`${inLoad} union all select created_at ${inChanges(generation, filters)}`
    : inLoad;
  return readBounds(clickhouse, rows, signal);
}

/** The bounds of the instants of matching purchases; null if there are none. */
export const readTimeBounds = (
  clickhouse: ClickHouse,
  generation: Generation,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): Promise<TimeBounds | null> =>
  readBounds(clickhouse, currentPurchases(generation, filters, raw('created_at')), signal);

async function readBounds(
  clickhouse: ClickHouse,
  rows: Sql,
  signal: AbortSignal | undefined,
): Promise<TimeBounds | null> {
  const [row] = await clickhouse.query(
    sql`select min(created_at), max(created_at), count() from (${rows})`,
    signal,
  );
  const [first, last, count] = (row ?? []) as [string, string, string];
  return count === '0' ? null : { first: BigInt(first), last: BigInt(last) };
}

/** The number of whole units of local time since 0001-01-01, as SQL. */
export function localUnits(
  offsets: readonly ZoneOffset[],
  unit: Exclude<keyof typeof intervalLengths, 'month'>,
): Sql {
  const shift = offsetExpression(
    offsets.length === 0
      ? [{ offset: -earliestInstant, until: null }]
      : offsets.map(({ offset, until }) => ({ offset: offset - earliestInstant, until })),
    (instant) => sql`created_at < ${raw(String(instant))}`,
  );
  return sql`intDiv(created_at + ${shift}, ${raw(String(intervalLengths[unit]))})`;
}
