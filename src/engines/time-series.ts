import {
  intervals,
  type PeriodCalendar,
  periodKeyAt,
  periodsBetween,
  requireFewPeriods,
} from '../domain/period.ts';
import { maxAutoPeriods } from '../domain/period-limit.ts';
import type {
  PurchasePeriod,
  PurchaseStats,
  PurchaseTimeSeries,
} from '../domain/purchase-engine.ts';
import type {
  PeriodsQuery,
  PurchaseFilters,
  PurchaseTimeSeriesQuery,
} from '../domain/purchase-query.ts';

/** The keys of the first and the last period. */
export type PeriodRange = { readonly first: number; readonly last: number };

/**
 * The periods between the bounds of the filters. `matching` reads the range of all matching
 * purchases, null if there are none; it is called only if a bound is missing. Rejects with
 * TooManyPeriodsError, so call it before anything else is read.
 */
export async function rangeOf(
  calendar: PeriodCalendar,
  { createdSince, createdUntil }: PurchaseFilters,
  max: number,
  matching: () => Promise<PeriodRange | null>,
): Promise<PeriodRange | null> {
  const isBounded = createdSince !== undefined && createdUntil !== undefined;
  if (isBounded && createdSince > createdUntil) return null;
  const found = isBounded ? null : await matching();
  const first =
    createdSince === undefined ? found?.first : await periodKeyAt(calendar, createdSince);
  const last = createdUntil === undefined ? found?.last : await periodKeyAt(calendar, createdUntil);
  if (first === undefined || last === undefined) return null;
  requireFewPeriods(first, last, max);
  return { first, last };
}

/**
 * The query with its interval. `readDays` reads the range of all matching purchases by day; it is called
 * only for `auto` without both bounds.
 */
export async function withInterval(
  query: PurchaseTimeSeriesQuery,
  readDays: (calendar: PeriodCalendar) => Promise<PeriodRange | null>,
): Promise<PeriodsQuery> {
  const { interval, timeZone, weekStart, filters } = query;
  if (interval !== 'auto') return { ...query, interval };
  const days = { interval: 'day', timeZone } as const;
  const isBounded = filters.createdSince !== undefined && filters.createdUntil !== undefined;
  const found = isBounded ? null : await readDays(days);
  const instantOf = async (key: number | undefined) =>
    key === undefined ? undefined : (await periodsBetween(days, key, key + 1))[0]?.startsAt;
  const since = filters.createdSince ?? (await instantOf(found?.first)) ?? 0n;
  const until = filters.createdUntil ?? (await instantOf(found?.last)) ?? since;
  for (const each of intervals) {
    const calendar = { interval: each, timeZone, weekStart };
    const count = (await periodKeyAt(calendar, until)) - (await periodKeyAt(calendar, since)) + 1;
    // The last day, of which only the beginning is known, has 24 hours or 25.
    if (count + (isBounded || each !== 'hour' ? 0 : 24) <= maxAutoPeriods) {
      return { ...query, interval: each };
    }
  }
  return { ...query, interval: 'year' };
}

/** The matching purchases of a series in one period. */
export type PeriodRow = Omit<PurchasePeriod, 'startsAt'> & {
  readonly series: string | null;
  readonly period: number;
};

/** Completes the rows of both engines: the order of the ranking, and periods without purchases. */
export async function assembleTimeSeries(
  query: PeriodsQuery,
  { groups, groupsTruncated, ...totals }: PurchaseStats,
  range: PeriodRange | null,
  readRows: () => Promise<readonly PeriodRow[]>,
): Promise<PurchaseTimeSeries> {
  let periods = range === null ? [] : await periodsBetween(query, range.first, range.last);
  const rows = totals.purchaseCount === 0n ? [] : await readRows();
  const keys = query.groupBy === undefined ? [null] : groups.map(({ key }) => key);
  const rowsOf = new Map(keys.map((key) => [key, new Map<number, PeriodRow>()]));
  const shown = rows.filter(({ series }) => rowsOf.has(series));
  for (const row of shown) rowsOf.get(row.series)?.set(row.period, row);
  if (range !== null) {
    const { first, last } = widen(range, shown);
    const isWider = first < range.first || last > range.last;
    if (isWider) periods = await periodsBetween(query, first, last);
  }
  const series = keys.map((key) => ({
    key,
    periods: periods.map(({ key: period, startsAt }) => {
      const row = rowsOf.get(key)?.get(period) ?? noPurchases;
      const { purchaseCount, customerCount, revenueInCents } = row;
      return { startsAt, purchaseCount, customerCount, revenueInCents };
    }),
  }));
  return { ...totals, interval: query.interval, series, seriesTruncated: groupsTruncated };
}

/** If clocks go back over midnight, a later purchase may be in an earlier period. */
const widen = (range: PeriodRange, rows: readonly PeriodRow[]): PeriodRange =>
  rows.reduce(
    ({ first, last }, { period }) => ({
      first: Math.min(first, period),
      last: Math.max(last, period),
    }),
    range,
  );

const noPurchases = { purchaseCount: 0n, customerCount: 0n, revenueInCents: 0n };
