import sql, { empty, raw, type Sql } from 'sql-template-tag';
import { arePeriodsInOrder, keyOf, periodKeyAt, periodOffsets } from '../../../domain/period.ts';
import {
  maxPeriodsOf,
  type PeriodsQuery,
  type PurchaseFilters,
} from '../../../domain/purchase-query.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import type { QueryContext } from '../query-context.ts';
import { type Generation, purchasesWithin, timeBounds } from '../serving/generation.ts';
import { type FirstPurchases, firstPurchases } from '../statistics/first-purchases.ts';
import { areInQuarterHours, localPeriod, localUnits, unitKey, unitOf } from './local-time.ts';
import { isFirstInPeriod, joinPeriods } from './period-tables.ts';

/** The periods of a time series, as SQL (domain/period.ts). */
export type Periods = {
  /** An integer for each period, in the order of periods. */
  readonly period: Sql;
  /** A join of the tables of purchases, which `period` and `firsts` need. */
  readonly joined: Sql;
  /** The key of a period. */
  readonly keyOf: (period: number) => number;
  /** Null if customers have to be grouped. */
  readonly firsts: FirstsInPeriods | null;
  /** Whether matching purchases are in no more periods than are allowed. */
  readonly areFew: boolean;
};

/** Conditions of first purchases (first-purchases.ts). */
export type FirstsInPeriods = FirstPurchases & {
  /** The purchase is the customer's first one in its period. */
  readonly isFirstInPeriod: Sql;
  /** The key of the period in which the range begins; null without a bound. */
  readonly cutPeriod: number | null;
};

/** The first purchases of a time series without groups; null if customers have to be grouped. */
export const firstsInPeriods = (
  generation: Generation,
  filters: PurchaseFilters,
  shortcuts: Shortcuts,
): FirstPurchases | null =>
  generation.summary.purchases < shortcuts.minPurchasesForFirstsInPeriods
    ? null
    : firstPurchases(generation, filters, shortcuts);

export async function periodsOf(
  generation: Generation,
  query: PeriodsQuery,
  { periodTables, shortcuts }: QueryContext,
): Promise<Periods> {
  const { interval, filters } = query;
  const { summary } = generation;
  const bounds = timeBounds(summary, filters);
  const offsets = await periodOffsets(query, bounds.since, bounds.until);
  const unit = unitOf(interval);
  const begin = localPeriod(interval, offsets);
  const earliest = await periodKeyAt(query, bounds.since);
  const computed = {
    period: unitKey(begin, unit, bounds, shortcuts),
    joined: empty,
    keyOf: (period: number) => keyOf(interval, BigInt(period) * unit),
    areFew: (await periodKeyAt(query, bounds.until)) - earliest < maxPeriodsOf(query),
  };
  const isExact = areInQuarterHours(offsets) && arePeriodsInOrder(interval, offsets);
  const first = isExact ? firstsInPeriods(generation, filters, shortcuts) : null;
  if (first === null) return { ...computed, firsts: null };
  const table =
    query.groupBy === undefined
      ? await periodTables.covering(query, bounds, purchasesWithin(summary, bounds))
      : null;
  const { previous, since, isFirst } = first;
  const { createdSince } = filters;
  const cutPeriod = createdSince === undefined ? null : await periodKeyAt(query, createdSince);
  if (table === null) {
    const isEarlier = sql`${localUnits(offsets, unit, previous)} < ${begin}`;
    return {
      ...computed,
      firsts: { ...first, cutPeriod, isFirstInPeriod: sql`${isEarlier} or ${isFirst}` },
    };
  }
  return {
    ...computed,
    period: raw('period'),
    joined: joinPeriods(table, since),
    firsts: { ...first, cutPeriod, isFirstInPeriod: isFirstInPeriod(previous) },
  };
}
