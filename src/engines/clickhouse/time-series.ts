import sql, { join, raw, type Sql } from 'sql-template-tag';
import {
  type Interval,
  intervalMonths,
  isOfMonths,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import type { PurchaseStats, PurchaseTimeSeries } from '../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  maxPeriodsOf,
  type PurchaseFilters,
  type PurchaseTimeSeriesQuery,
} from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { assembleTimeSeries, type PeriodRow, rangeOf, withInterval } from '../time-series.ts';
import type { ClickHouse } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import { groupedPurchases } from './relations.ts';
import { localUnits, purchaseStats, readTimeBounds, readWideBounds } from './stats.ts';

/** The totals and the ranking are those of statistics. */
export async function purchaseTimeSeries(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  wanted: PurchaseTimeSeriesQuery,
  signal: AbortSignal | undefined,
): Promise<PurchaseTimeSeries> {
  const { filters, groupBy, groupLimit } = wanted;
  const rangeIn = async (calendar: PeriodCalendar) => {
    const bounds = await readTimeBounds(clickhouse, generation, filters, signal);
    return (
      bounds && {
        first: await periodKeyAt(calendar, bounds.first),
        last: await periodKeyAt(calendar, bounds.last),
      }
    );
  };
  const query = await withInterval(wanted, rangeIn);
  const range = await rangeOf(query, filters, maxPeriodsOf(query), () => rangeIn(query));
  const ranking = { filters, groupLimit, ...(groupBy === undefined ? {} : { groupBy }) };
  const stats = await purchaseStats(clickhouse, generation, ranking, signal);
  return assembleTimeSeries(query, stats, range, async () => {
    const bounds = await readWideBounds(clickhouse, generation, filters, signal);
    if (bounds === null) return [];
    const offsets = await periodOffsets(query, bounds.first, bounds.last);
    const keys = {
      series:
        groupBy === undefined
          ? raw('cast(null, $$Nullable(String)$$)')
          : raw(labelOfDimension(groupBy)),
      period: periodKey(query.interval, offsets),
    };
    return readPeriods(clickhouse, generation, filters, keys, stats, signal);
  });
}

/** The key of a purchase's period, as SQL (domain/period.ts). */
export function periodKey(interval: Interval, offsets: readonly ZoneOffset[]): Sql {
  if (!isOfMonths(interval)) return localUnits(offsets, interval);
  // Years of 365.2425 days that begin in March, as in Howard Hinnant's `civil_from_days`.
  // 0001-01-01 is 306 days after the beginning of such a year.
  // Each alias is defined once and used again: without aliases, the offsets would be in the
  // statement twenty times, and exceed the maximum size of a query.
  const era = sql`(intDiv((${localUnits(offsets, 'day')} + 306) as shifted_day, 146097) as era)`;
  const dayOfEra = raw('((shifted_day - era * 146097) as day_of_era)');
  const year = sql`(intDiv(${dayOfEra} - intDiv(day_of_era, 1460) + intDiv(day_of_era, 36524)
    - intDiv(day_of_era, 146096), 365) as year_of_era)`;
  const dayOfYear = raw(
    '(day_of_era - (365 * year_of_era + intDiv(year_of_era, 4) - intDiv(year_of_era, 100)))',
  );
  const month = sql`intDiv(5 * ${dayOfYear} + 2, 153)`;
  const months = sql`((${year} + ${era} * 400) * 12 + ${month} - 10)`;
  return sql`intDiv(${months}, ${raw(String(intervalMonths[interval]))})`;
}

async function readPeriods(
  clickhouse: ClickHouse,
  generation: LoadGeneration,
  filters: PurchaseFilters,
  keys: { readonly series: Sql; readonly period: Sql },
  { groups }: PurchaseStats,
  signal: AbortSignal | undefined,
): Promise<PeriodRow[]> {
  const names = groups.flatMap(({ key }) => (key === null ? [] : [key]));
  const ranked = names.length === 0 ? raw('false') : sql`series in (${join(names)})`;
  const rows = await clickhouse.query(
    sql`
      select series, period, purchase_count, revenue, customer_count
      from ${groupedPurchases(generation, filters, keys, { withCustomers: true })}
      where series is null or ${ranked}`,
    signal,
  );
  return rows.map(([series, period, purchases, revenue, customers]) => ({
    series: series as string | null,
    period: Number(period),
    purchaseCount: BigInt(purchases as string),
    customerCount: BigInt(customers as string),
    revenueInCents: BigInt(revenue as string),
  }));
}
