import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant } from '../../domain/instant.ts';
import { isUnfiltered, type PurchaseFilters } from '../../domain/purchase-query.ts';
import { loadZoneOffsets, type ZoneOffset, zoneOffsets } from '../../domain/time-zone.ts';
import {
  creationQuarter,
  quarterHour,
  quarterHourOf,
  quarterHoursADay,
} from '../../purchase-store/quarter-hours.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { type Extent, stretchOf } from './labels.ts';

/** How purchases are grouped by day. */
export type DayGrouping = {
  /** Of a row: its day, or the part of a day. */
  readonly key: Sql;
  /** The day of the part that is called `key`; null where `key` is a day already. */
  readonly day: Sql | null;
  /** The date of the day that is called `key`. */
  readonly date: Sql;
};

/** Prepares `dayGrouping`, without blocking the event loop. */
export async function loadDayGrouping(
  extent: Extent,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): Promise<void> {
  if (timeZone === undefined) return;
  const { since, until } = stretchOf(extent, filters);
  await loadZoneOffsets(timeZone, since, until);
}

/**
 * By day, in UTC or in a time zone, for purchases that the filters leave. DuckDB's own time
 * zones take thirty times as long as these offsets.
 */
export function dayGrouping(
  extent: Extent,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): DayGrouping {
  const { since, until } = stretchOf(extent, filters);
  const offsets = timeZone === undefined ? [] : zoneOffsets(timeZone, since, until);
  if (!offsets.every(isInQuarters)) return byMicroseconds(offsets, since);
  const { createdSince: _since, createdUntil: _until, ...others } = filters;
  const many = timeZone === undefined ? manyAQuarter.utc : manyAQuarter.zone;
  const areMany = isUnfiltered(others) && expectedAQuarter(extent, since, until) > many;
  if (timeZone === undefined && !areMany) {
    return { key: sql`created_at::date`, day: null, date: sql`key` };
  }
  const date = sql`date '0001-01-01' + key`;
  const quarter = raw(creationQuarter.name);
  return areMany
    ? { key: quarter, day: dayOfQuarter(raw('key'), offsets), date }
    : { key: dayOfQuarter(quarter, offsets), day: null, date };
}

/** Days since the first of all; no local day is before that one (domain/time-zone.ts). */
function dayOfQuarter(quarter: Sql, offsets: readonly ZoneOffset[]): Sql {
  const offset = offsetExpression(
    offsets.map(({ offset, until }) => ({ offset: offset / quarterHour, until })),
    (instant) => sql`${quarter} < ${raw(String(quarterHourOf(instant)))}`,
  );
  return sql`(${quarter} + ${offset}) // ${raw(String(quarterHoursADay))}`;
}

/** As nearly all offsets and changes are since the local mean times were given up. */
function isInQuarters({ offset, until }: ZoneOffset): boolean {
  const end = until === null ? 0n : until - earliestInstant;
  return offset % quarterHour === 0n && end % quarterHour === 0n;
}

/**
 * Purchases asked for by quarter from which on it pays to sum up quarters, which takes no
 * arithmetic by row, and days from those, instead of dates or of quarters that are shifted
 * and divided. Measured, from a million to ten.
 */
const manyAQuarter = { utc: 32, zone: 12 };

/** By all quarters of the file: each is addressed, asked for or not. */
function expectedAQuarter({ purchases, first, last }: Extent, since: bigint, until: bigint) {
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
