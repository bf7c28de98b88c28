import { grouped } from './grouped.ts';
import type { Cohort, CohortPeriod } from './purchase-report.ts';

/** Cohorts together. */
export type CohortTotal = {
  readonly customerCount: bigint;
  /** From the period of the first purchase on, as long as it is over for a cohort. */
  readonly periods: readonly (Omit<CohortPeriod, 'isComplete'> & {
    /** The customers of the cohorts for which the period is over. */
    readonly cohortCustomerCount: bigint;
  })[];
};

export type CohortTotals = CohortTotal & {
  /** Ascending by key; null is last. */
  readonly groups: readonly (CohortTotal & { readonly key: string | null })[];
};

/** A period counts the cohorts for which it is over. Each customer is in one cohort, so customers add up. */
export function cohortTotals(cohorts: readonly Cohort[], isGrouped: boolean): CohortTotals {
  const byKey = isGrouped ? [...grouped(cohorts, ({ key }) => key)] : [];
  return {
    ...totalOf(cohorts),
    groups: byKey
      .toSorted(([one], [other]) => compareKeys(one, other))
      .map(([key, ofKey]) => ({ key, ...totalOf(ofKey) })),
  };
}

function totalOf(cohorts: readonly Cohort[]): CohortTotal {
  const length = Math.max(0, ...cohorts.map(({ periods }) => periods.length));
  const all = Array.from({ length }, (_, index) => {
    const over = cohorts.filter(({ periods }) => periods[index]?.isComplete === true);
    const sumOf = (amountOf: (period: CohortPeriod) => bigint) =>
      over.reduce((sum, { periods }) => sum + amountOf(periods[index] as CohortPeriod), 0n);
    return {
      cohortCustomerCount: customersOf(over),
      customerCount: sumOf(({ customerCount }) => customerCount),
      purchaseCount: sumOf(({ purchaseCount }) => purchaseCount),
      revenueInCents: sumOf(({ revenueInCents }) => revenueInCents),
    };
  });
  return {
    customerCount: customersOf(cohorts),
    periods: all.filter(({ cohortCustomerCount }) => cohortCustomerCount > 0n),
  };
}

const customersOf = (cohorts: readonly Cohort[]): bigint =>
  cohorts.reduce((sum, { customerCount }) => sum + customerCount, 0n);

function compareKeys(one: string | null, other: string | null): number {
  if (one === null || other === null) return Number(one === null) - Number(other === null);
  return Buffer.compare(Buffer.from(one), Buffer.from(other));
}
