import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import { intervalLengths } from '../../domain/period.ts';
import {
  emptyStats,
  type PurchaseGroup,
  type PurchaseStats,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
} from '../../domain/purchase-query.ts';
import { type ZoneOffset, zoneOffsets } from '../../domain/time-zone.ts';
import { offsetExpression } from '../zone-offsets.ts';
import type { ClickHouse, ClickHouseRow } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import {
  currentLoadPurchases,
  customerCount,
  groupedPurchases,
  hasChanges,
  inBase,
  inChanges,
} from './relations.ts';

/**
 * One query: the totals stand in each row of the ranking, which has one row without a dimension.
 * `groupArray` ignores null. Reading currencies took an eighth of the time for ten million
 * purchases, so the generation's only currency is taken, unless perhaps no match has a currency.
 */
export async function purchaseStats(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  query: PurchaseStatsQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseStats> {
  const { filters, groupBy, groupLimit } = query;
  const groupsBy = (key: Sql) =>
    groupedPurchases(generation, filters, { key }, { withCustomers: false });
  const { currency, withoutCurrency } = generation;
  const currencies = sql`(select groupArray(2)(key) from ${groupsBy(raw('currency'))})`;
  const rows = await clickhouse.query(
    sql`
      select sum(purchase_count) over (), sum(revenue) over (),
        (${customerCount(generation, filters)}),
        ${currency === null ? currencies : sql`[${currency}]`}, key, purchase_count, revenue
      from ${groupsBy(await rankedKey(clickhouse, generation, query, signal))}
      order by revenue desc, purchase_count desc, key asc nulls last
      limit ${raw(String(groupLimit + 1))}`,
    signal,
  );
  const [first] = rows;
  if (first === undefined) return emptyStats;
  const groups =
    groupBy === undefined ? [] : rows.map((row) => readGroup(row, { isDay: groupBy === 'day' }));
  const totals = readTotals(first);
  const isUncertain = currency !== null && totals.purchaseCount <= withoutCurrency;
  const [row] = isUncertain ? await clickhouse.query(sql`select ${currencies}`, signal) : [];
  return {
    ...totals,
    ...(row && readCurrency(row[0])),
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

async function rankedKey(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  { filters, groupBy, timeZone }: PurchaseStatsQuery,
  signal: AbortSignal | undefined,
): Promise<Sql> {
  if (groupBy === undefined) return raw('null');
  if (groupBy !== 'day') return raw(labelOfDimension(groupBy));
  return localUnits(await dayOffsets(clickhouse, generation, filters, timeZone, signal), 'day');
}

function readTotals([purchases, revenue, customers, currencies]: ClickHouseRow): PurchaseTotals {
  return {
    purchaseCount: BigInt(purchases as string),
    customerCount: BigInt(customers as string),
    revenueInCents: BigInt(revenue as string),
    ...readCurrency(currencies),
  };
}

function readCurrency(currencies: ClickHouseRow[number] | undefined) {
  const [currency = null, another] = currencies as readonly string[];
  const mixedCurrencies = another !== undefined;
  return { currency: mixedCurrencies ? null : currency, mixedCurrencies };
}

function readGroup(row: ClickHouseRow, { isDay }: { readonly isDay: boolean }): PurchaseGroup {
  const [key, purchases, revenue] = row.slice(4);
  return {
    key: isDay ? dayText(Number(key)) : (key as string | null),
    purchaseCount: BigInt(purchases as string),
    revenueInCents: BigInt(revenue as string),
  };
}

/** `YYYY-MM-DD` of a number of days since 0001-01-01. */
const dayText = (days: number): string =>
  formatInstant(earliestInstant + BigInt(days) * intervalLengths.day).slice(0, 10);

async function dayOffsets(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  filters: PurchaseFilters,
  timeZone: string | undefined,
  signal: AbortSignal | undefined,
): Promise<readonly ZoneOffset[]> {
  if (timeZone === undefined) return [];
  const bounds = await readWideBounds(clickhouse, generation, filters, signal);
  if (bounds === null) return [];
  return zoneOffsets(timeZone, bounds.first, bounds.last);
}

type TimeBounds = { readonly first: bigint; readonly last: bigint };

/**
 * The bounds of the instants of matching purchases, also of superseded rows; null if there are
 * none. The filters narrow them.
 */
export function readWideBounds(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
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
  generation: LoadGeneration,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): Promise<TimeBounds | null> =>
  readBounds(clickhouse, currentLoadPurchases(generation, filters, raw('created_at')), signal);

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
