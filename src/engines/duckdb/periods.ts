import sql, { raw, type Sql } from 'sql-template-tag';
import {
  arePeriodsInOrder,
  intervalLengths,
  keyOf,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import {
  isUnfiltered,
  type PurchaseFilters,
  type PurchaseTimeSeriesQuery,
} from '../../domain/purchase-query.ts';
import { previousQuarters } from '../../purchase-store/previous-purchases.ts';
import { isQuarterHour, quarterHour, quarterHourOf } from '../../purchase-store/quarter-hours.ts';
import { type Generation, timeBounds } from './generation.ts';
import { areInQuarterHours, localUnits, unitKey } from './local-time.ts';

/** The periods of a time series, as SQL (domain/period.ts). */
export type Periods = {
  /** Tells the periods of purchases apart, in their order. */
  readonly period: Sql;
  /** The key of a period. */
  readonly keyOf: (period: number) => number;
  /** Null if customers have to be grouped. */
  readonly first: FirstPurchases | null;
  /** Matching purchases are in no more periods than are allowed. */
  readonly areFew: boolean;
};

export type FirstPurchases = {
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
  // By month and year of each row, a series by month took twice the time.
  const unit = intervalLengths[interval === 'month' ? 'day' : interval];
  const units = localUnits(offsets, unit);
  const begin =
    interval === 'month' ? sql`(${units} - day(date '0001-01-01' + ${units}) + 1)::integer` : units;
  const period = unitKey(begin, unit, bounds);
  const keyOfPeriod = (period: number) => keyOf(interval, BigInt(period) * unit);
  const earliest = await periodKeyAt(query, bounds.since);
  const areFew = (await periodKeyAt(query, bounds.until)) - earliest < maxPeriods;
  const isExact = areInQuarterHours(offsets) && arePeriodsInOrder(interval, offsets);
  const firstQuarter = isExact ? firstQuarterOf(generation, filters) : null;
  if (firstQuarter === null) return { period, keyOf: keyOfPeriod, first: null, areFew };
  const { ofAny, ofStatus } = previousQuarters;
  const previous = raw((filters.paymentStatus === undefined ? ofAny : ofStatus).name);
  const isFirst = sql`${previous} < ${raw(String(firstQuarter))}`;
  const isFirstInPeriod = sql`${localUnits(offsets, unit, previous)} < ${begin} or ${isFirst}`;
  const longest = Number(longestPeriods[interval] / quarterHour);
  return { period, keyOf: keyOfPeriod, first: { isFirst, isFirstInPeriod, longest }, areFew };
}

/**
 * The quarter of an hour in which matching purchases of the base begin: a customer's first one has no
 * previous one since. Null for filters other than a payment status and a time range that begins with a
 * quarter of an hour, and without a base.
 */
function firstQuarterOf(
  { ofBase }: Generation,
  { paymentStatus: _status, createdSince, createdUntil: _until, ...others }: PurchaseFilters,
): number | null {
  const { firstQuarter } = ofBase;
  if (firstQuarter === null || !isUnfiltered(others)) return null;
  if (createdSince === undefined) return firstQuarter;
  const since = quarterHourOf(createdSince);
  // Without a previous purchase, a row has a quarter before the first purchase.
  if (since < firstQuarter) return firstQuarter;
  return isQuarterHour(createdSince) ? since : null;
}

const { hour, day, week } = intervalLengths;
/** With a day in addition, because clocks may go back. */
const longestPeriods = { hour: hour + day, day: 2n * day, week: week + day, month: 32n * day };
