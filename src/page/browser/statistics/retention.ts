import type { Cohort } from '../api/responses.ts';

export type Retention = {
  /** The share of the cohort's customers that bought in the period. */
  readonly share: number;
  readonly customerCount: number;
  readonly isComplete: boolean;
};

/** Shares in the periods after that of the first purchase, in which all customers buy. */
export const retentionOf = ({ customer_count: size, periods }: Cohort): Retention[] =>
  periods.slice(1).map((period) => ({
    share: Number(period.customer_count) / Number(size),
    customerCount: Number(period.customer_count),
    isComplete: period.is_complete,
  }));

/** The share of the customers of all cohorts for which the period is over. Null if it is for none. */
export function averageRetention(cohorts: readonly Cohort[], index: number): number | null {
  const over = cohorts.filter(({ periods }) => periods[index + 1]?.is_complete);
  const sum = (countOf: (cohort: Cohort) => unknown) =>
    over.reduce((total, cohort) => total + Number(countOf(cohort)), 0);
  const size = sum(({ customer_count }) => customer_count);
  return size === 0 ? null : sum(({ periods }) => periods[index + 1]?.customer_count) / size;
}
