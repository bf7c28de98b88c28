import sql, { raw, type Sql } from 'sql-template-tag';
import { type Interval, intervalMonths, isOfMonths } from '../../domain/period.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import type { TimeBounds } from '../report/source.ts';
import type { ClickHouse } from './client.ts';
import type { LoadGeneration } from './generation.ts';
import { localUnits } from './local-units.ts';
import { currentLoadPurchases, hasChanges, inBase, inChanges } from './relations.ts';

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
