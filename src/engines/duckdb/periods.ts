import sql, { type Sql } from 'sql-template-tag';
import {
  arePeriodsInOrder,
  intervalLengths,
  keyOf,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import type { PurchaseTimeSeriesQuery } from '../../domain/purchase-query.ts';
import { firstPurchases } from './first-purchases.ts';
import { type Generation, timeBounds } from './generation.ts';
import { areInQuarterHours, localUnits, unitKey } from './local-time.ts';

/** The periods of a time series, as SQL (domain/period.ts). */
export type Periods = {
  /** Tells the periods of purchases apart, in their order. */
  readonly period: Sql;
  /** The key of a period. */
  readonly keyOf: (period: number) => number;
  /** Null if customers have to be grouped. */
  readonly firsts: FirstsInPeriods | null;
  /** Matching purchases are in no more periods than are allowed. */
  readonly areFew: boolean;
};

/** Conditions of first purchases (first-purchases.ts). */
export type FirstsInPeriods = {
  readonly isFirst: Sql;
  /** The customer's first one in the purchase's period. */
  readonly isFirstInPeriod: Sql;
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
  const first = isExact ? firstPurchases(generation, filters) : null;
  if (first === null) return { period, keyOf: keyOfPeriod, firsts: null, areFew };
  const { previous, isFirst } = first;
  const isFirstInPeriod = sql`${localUnits(offsets, unit, previous)} < ${begin} or ${isFirst}`;
  return { period, keyOf: keyOfPeriod, firsts: { isFirst, isFirstInPeriod }, areFew };
}
