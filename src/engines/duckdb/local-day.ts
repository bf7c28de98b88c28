import sql, { raw, type Sql } from 'sql-template-tag';
import { intervalLengths } from '../../domain/period.ts';
import { isUnfiltered, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { zoneOffsets } from '../../domain/time-zone.ts';
import { creationQuarter, quarterHour } from '../../purchase-store/quarter-hours.ts';
import { type GenerationSummary, timeBounds } from './generation.ts';
import { areInQuarterHours, isSparse, localUnits, unitKey } from './local-time.ts';

/** The SQL expressions that group purchases by day. */
export type DayGrouping = {
  /** The day of a row, or its quarter of an hour. */
  readonly key: Sql;
  /** The day of the quarter of an hour `key`; null if `key` is a day already. */
  readonly day: Sql | null;
  /** The date of the day `key`. */
  readonly date: Sql;
};

/**
 * Groups matching purchases by day, in UTC or in a time zone. DuckDB's own time zones take
 * thirty times as long as these offsets.
 */
export async function dayGrouping(
  summary: GenerationSummary,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): Promise<DayGrouping> {
  const bounds = timeBounds(summary, filters);
  const { since, until } = bounds;
  const offsets = timeZone === undefined ? [] : await zoneOffsets(timeZone, since, until);
  const { createdSince: _since, createdUntil: _until, ...others } = filters;
  const threshold = perQuarterHourThreshold[timeZone === undefined ? 'utc' : 'zone'];
  const isDense =
    areInQuarterHours(offsets) &&
    isUnfiltered(others) &&
    meanPerQuarterHour(summary, since, until) > threshold;
  const { day } = intervalLengths;
  // A filter leaves DuckDB's bounds of the delta as they are.
  if (timeZone === undefined && !isDense && !isSparse(timeBounds(summary, {}), day)) {
    return { key: sql`created_at::date`, day: null, date: sql`key` };
  }
  const date = sql`date '0001-01-01' + key`;
  return isDense
    ? { key: raw(creationQuarter.name), day: localUnits(offsets, day, raw('key')), date }
    : { key: unitKey(localUnits(offsets, day), day, bounds), day: null, date };
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
