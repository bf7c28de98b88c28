import { describe, expect, it } from 'vitest';
import { cohortTotals } from '../../src/domain/cohort-totals.ts';
import type { Cohort } from '../../src/domain/purchase-report.ts';

/** A cohort with the customers that bought in each period; only the last one is not over. */
const cohortOf = (key: string | null, ...customers: readonly bigint[]): Cohort => ({
  startsAt: 0n,
  key,
  customerCount: customers[0] as bigint,
  periods: customers.map((customerCount, index) => ({
    customerCount,
    purchaseCount: 2n * customerCount,
    revenueInCents: 10n * customerCount,
    isComplete: index < customers.length - 1,
  })),
});

describe('the totals of cohorts', () => {
  const cohorts = [
    cohortOf('z', 10n, 4n, 2n, 1n),
    cohortOf(null, 30n, 9n, 1n),
    cohortOf('é', 7n, 2n),
    cohortOf('z', 5n),
  ];
  const sizesOf = ({ periods }: ReturnType<typeof cohortTotals>['groups'][number]) =>
    periods.map(({ cohortCustomerCount }) => cohortCustomerCount);

  it('count in each period the cohorts for which it is over', () => {
    const { customerCount, periods, groups } = cohortTotals(cohorts, false);
    expect(customerCount).toBe(52n);
    expect(periods).toEqual([
      { cohortCustomerCount: 47n, customerCount: 47n, purchaseCount: 94n, revenueInCents: 470n },
      { cohortCustomerCount: 40n, customerCount: 13n, purchaseCount: 26n, revenueInCents: 130n },
      { cohortCustomerCount: 10n, customerCount: 2n, purchaseCount: 4n, revenueInCents: 20n },
    ]);
    expect(groups).toEqual([]);
  });

  it('have groups in the order of the bytes of their keys, null last', () => {
    const { groups } = cohortTotals(cohorts, true);
    expect(groups.map((group) => [group.key, group.customerCount, ...sizesOf(group)])).toEqual([
      ['z', 15n, 10n, 10n, 10n],
      ['é', 7n, 7n],
      [null, 30n, 30n, 30n],
    ]);
  });
});
