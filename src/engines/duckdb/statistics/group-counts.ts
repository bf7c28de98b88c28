import { intervalLengths, isOfMonths } from '../../../domain/period.ts';
import { labelOfDimension, type PurchaseFilters } from '../../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type ReportDimension,
  TooManyGroupsError,
} from '../../../domain/purchase-report.ts';
import { customerDictionary, labelDictionary } from '../../../purchase-store/format/layout.ts';
import type { SideQuery } from '../../report/source.ts';
import { isQuantile } from '../../report/statement.ts';
import { type Generation, purchasesWithin, timeBounds } from '../serving/generation.ts';

/** The most groups that matching purchases can have. */
export function groupsOf(
  { summary, keyCounts, ofBase, changes }: Generation,
  dimensions: readonly ReportDimension[],
  filters: PurchaseFilters,
): number {
  const { since, until } = timeBounds(summary, filters);
  const valuesOf = (dimension: ReportDimension): number => {
    if (isPeriodDimension(dimension)) {
      const length = intervalLengths[isOfMonths(dimension) ? 'week' : dimension];
      return Math.max(0, Number((until - since) / length)) + 2;
    }
    // A changed purchase seldom has more than one code.
    if (dimension === 'coupon') return (ofBase.coupons?.codes ?? 0) + changes + 1;
    if (dimension === 'customer_type') return 2;
    if (dimension === 'weekday') return 7;
    if (dimension === 'hour_of_day') return 24;
    return keyCounts(
      dimension === 'customer' ? customerDictionary : labelDictionary(labelOfDimension(dimension)),
    );
  };
  return dimensions.reduce((product, dimension) => product * valuesOf(dimension), 1);
}

/**
 * Throws TooManyGroupsError if the report can have too many groups in memory. A customer who is counted in a
 * group is one too, and each value of a quantile.
 */
export function requireFewGroups(
  generation: Generation,
  filters: PurchaseFilters,
  { dimensions, sums }: Pick<SideQuery, 'dimensions' | 'sums'>,
  max: number,
): void {
  const { summary } = generation;
  const purchases = purchasesWithin(summary, timeBounds(summary, filters));
  if (purchases <= max) return;
  if (sums.some(isQuantile)) throw new TooManyGroupsError(Math.round(purchases), max);
  if (dimensions.length === 0) return;
  const countsCustomers = sums.includes('customer_count') || sums.includes('repeat_customer_count');
  const isOfCustomers = countsCustomers && !dimensions.includes('customer');
  const keys = isOfCustomers ? [...dimensions, 'customer' as const] : dimensions;
  const count = Math.min(purchases, groupsOf(generation, keys, filters));
  if (count > max) throw new TooManyGroupsError(Math.round(count), max);
}
