import sql, { raw, type Sql } from 'sql-template-tag';
import { isUnfiltered, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { loadZoneOffsets, type ZoneOffset, zoneOffsets } from '../../domain/time-zone.ts';
import {
  creationQuarter,
  isInQuarterHours,
  quarterHour,
  quarterHourOf,
  quarterHoursADay,
} from '../../purchase-store/quarter-hours.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { type GenerationSummary, timeBounds } from './generation.ts';

/** The SQL expressions that group purchases by day. */
export type DayGrouping = {
  /** The day of a row, or its quarter of an hour. */
  readonly key: Sql;
  /** The day of the quarter of an hour `key`; null if `key` is a day already. */
  readonly day: Sql | null;
  /** The date of the day `key`. */
  readonly date: Sql;
};

/** Loads the offsets for `dayGrouping`, without blocking the event loop. */
export async function loadDayGrouping(
  summary: GenerationSummary,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): Promise<void> {
  if (timeZone === undefined) return;
  const { since, until } = timeBounds(summary, filters);
  await loadZoneOffsets(timeZone, since, until);
}

/**
 * Groups matching purchases by day, in UTC or in a time zone. DuckDB's own time zones take
 * thirty times as long as these offsets.
 */
export function dayGrouping(
  summary: GenerationSummary,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): DayGrouping {
  const { since, until } = timeBounds(summary, filters);
  const offsets = timeZone === undefined ? [] : zoneOffsets(timeZone, since, until);
  if (!offsets.every(isInQuarterHours)) return byMicroseconds(offsets, since);
  const { createdSince: _since, createdUntil: _until, ...others } = filters;
  const threshold = perQuarterHourThreshold[timeZone === undefined ? 'utc' : 'zone'];
  const isDense = isUnfiltered(others) && meanPerQuarterHour(summary, since, until) > threshold;
  if (timeZone === undefined && !isDense) {
    return { key: sql`created_at::date`, day: null, date: sql`key` };
  }
  const date = sql`date '0001-01-01' + key`;
  const quarter = raw(creationQuarter.name);
  return isDense
    ? { key: quarter, day: dayOfQuarter(raw('key'), offsets), date }
    : { key: dayOfQuarter(quarter, offsets), day: null, date };
}

/** Days since 0001-01-01. No local day is earlier (domain/time-zone.ts). */
function dayOfQuarter(quarter: Sql, offsets: readonly ZoneOffset[]): Sql {
  const offset = offsetExpression(
    offsets.map(({ offset, until }) => ({ offset: offset / quarterHour, until })),
    (instant) => sql`${quarter} < ${raw(String(quarterHourOf(instant)))}`,
  );
  return sql`(${quarter} + ${offset}) // ${raw(String(quarterHoursADay))}`;
}

/**
 * Above this mean number of purchases in a quarter of an hour, grouping by quarters first is
 * faster: it needs no arithmetic for each row. Measured with one to ten million purchases.
 */
const perQuarterHourThreshold = { utc: 32, zone: 12 };

/** Relative to all quarters of an hour in the file, because DuckDB addresses each of them. */
function meanPerQuarterHour(
  { purchases, first, last }: GenerationSummary,
  since: bigint,
  until: bigint,
) {
  const length = Number(last - first) + 1;
  return (purchases * Number(until - since) * Number(quarterHour)) / length ** 2;
}

const dayLength = quarterHour * BigInt(quarterHoursADay);

/** For local mean times, which differ by seconds, and for clocks that changed at a minute past midnight. */
function byMicroseconds(offsets: readonly ZoneOffset[], since: bigint): DayGrouping {
  // Days are counted from before all of them: division rounds towards zero.
  const base = since / dayLength - 2n;
  const sinceBase = offsetExpression(
    offsets.map((zone) => ({ ...zone, offset: zone.offset - base * dayLength })),
    (instant) => sql`epoch_us(created_at) < ${raw(String(instant))}`,
  );
  return {
    key: sql`((epoch_us(created_at) + ${sinceBase}) // ${raw(String(dayLength))})::integer`,
    day: null,
    date: sql`date '1970-01-01' + (key + ${raw(String(base))})`,
  };
}
