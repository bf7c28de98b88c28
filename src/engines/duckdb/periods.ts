import sql, { raw, type Sql } from 'sql-template-tag';
import {
  arePeriodsInOrder,
  type Interval,
  intervalLengths,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import type { PurchaseTimeSeriesQuery } from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { creationQuarter, quarterHour } from '../../purchase-store/quarter-hours.ts';
import { firstPurchases } from './customers.ts';
import { type Generation, timeBounds } from './generation.ts';
import { areInQuarterHours, localUnits, unitKey } from './local-time.ts';

/** The periods of a time series, as SQL (domain/period.ts). */
export type Periods = {
  /** The key of a purchase's period. */
  readonly period: Sql;
  /** Null if customers have to be grouped. */
  readonly first: FirstInPeriod | null;
  /** Matching purchases are in no more periods than are allowed. */
  readonly areFew: boolean;
};

export type FirstInPeriod = {
  readonly period: Sql;
  /** A condition on rows of the base: the first matching purchase of its customer. */
  readonly isFirst: Sql;
  /** The same within the purchase's period. */
  readonly isFirstInPeriod: Sql;
  /** No period has more quarters of an hour. */
  readonly longest: number;
};

export async function periodsOf(
  generation: Generation,
  query: PurchaseTimeSeriesQuery,
): Promise<Periods> {
  const { interval, filters } = query;
  const bounds = timeBounds(generation.summary, filters);
  const offsets = await periodOffsets(query, bounds.since, bounds.until);
  const keyOf = (quarter: Sql) => periodKey(interval, offsets, quarter);
  const key = keyOf(raw(creationQuarter.name));
  const period = interval === 'month' ? key : unitKey(key, intervalLengths[interval], bounds);
  const [earliest, latest] = [bounds.since, bounds.until].map((each) => periodKeyAt(query, each));
  const areFew = ((await latest) as number) - ((await earliest) as number) < maxPeriods;
  const isExact = areInQuarterHours(offsets) && arePeriodsInOrder(interval, offsets);
  const first = isExact ? firstPurchases(generation, filters) : null;
  if (first === null) return { period, first, areFew };
  const { previous, isFirst } = first;
  const isFirstInPeriod = sql`${keyOf(previous)} < ${key} or ${isFirst}`;
  const longest = Number(longestPeriods[interval] / quarterHour);
  return { period, first: { period, isFirst, isFirstInPeriod, longest }, areFew };
}

const { hour, day, week } = intervalLengths;
/** With a day in addition, because clocks may go back. */
const longestPeriods = { hour: hour + day, day: 2n * day, week: week + day, month: 32n * day };

/** The key of the period of a quarter of an hour. */
function periodKey(interval: Interval, offsets: readonly ZoneOffset[], quarter: Sql): Sql {
  if (interval !== 'month') return localUnits(offsets, intervalLengths[interval], quarter);
  const date = sql`(date '0001-01-01' + ${localUnits(offsets, intervalLengths.day, quarter)})`;
  return sql`((year(${date}) - 1) * 12 + month(${date}) - 1)::integer`;
}
