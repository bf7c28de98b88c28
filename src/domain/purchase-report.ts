import type { LocalCalendar } from './period.ts';
import { type LabelDimension, labelDimensions, type PurchaseFilters } from './purchase-query.ts';

/** Sums over matching purchases, by several dimensions: an addition to the specification. */

/** Cents of a purchase that may be missing. A sum adds the others. */
export const optionalAmounts = [
  'subtotal_amount_in_cents',
  'total_amount_in_cents',
  'discount_in_cents',
  'shipping_cost_customer_in_cents',
] as const;
export type OptionalAmount = (typeof optionalAmounts)[number];

/** Values of a purchase that so many tenths of the purchases do not exceed: the smallest one, not interpolated. */
export const quantileTenths = { median_value_in_cents: 5, p90_value_in_cents: 9 } as const;
export type Quantile = keyof typeof quantileTenths;
export const quantiles = Object.keys(quantileTenths) as Quantile[];

export const reportMeasures = [
  'purchase_count',
  'revenue_in_cents',
  'average_ticket_in_cents',
  'customer_count',
  /** The customers whose first purchase is in the row; see `isFirst`. */
  'new_customer_count',
  /** The customers with another purchase in the row. */
  'returning_customer_count',
  /** The customers with at least two purchases in the row. */
  'repeat_customer_count',
  'median_value_in_cents',
  'p90_value_in_cents',
  ...optionalAmounts,
] as const;
export type ReportMeasure = (typeof reportMeasures)[number];

export const defaultMeasures = reportMeasures.slice(0, 4);

/** Dimensions of time: a period of local time. A report has at most one. */
export const periodDimensions = ['hour', 'day', 'week', 'month', 'quarter', 'year'] as const;
export type PeriodDimension = (typeof periodDimensions)[number];

export const reportDimensions = [
  ...labelDimensions,
  /** The code of a coupon (coupon-codes.ts). A purchase is in the row of each of its codes: rows do not add up. */
  'coupon',
  /** `new` for a customer's first purchase, otherwise `returning`. */
  'customer_type',
  'customer',
  ...periodDimensions,
  /** 1 (Monday) to 7, and 0 to 23, of local time. */
  'weekday',
  'hour_of_day',
] as const;
export type ReportDimension =
  | LabelDimension
  | PeriodDimension
  | 'coupon'
  | 'customer_type'
  | 'customer'
  | 'weekday'
  | 'hour_of_day';

export const isPeriodDimension = (dimension: string): dimension is PeriodDimension =>
  (periodDimensions as readonly string[]).includes(dimension);
export const comparisons = [
  'previous_period',
  'previous_month',
  'previous_year',
  /** 364 days earlier: a Monday is compared with a Monday. */
  'previous_year_weekdays',
] as const;
export type Comparison = (typeof comparisons)[number];

/** The calendar months by which a comparison moves both bounds back; null if it moves them by days. */
export const stepMonths = (comparison: Comparison): number | null =>
  comparison === 'previous_month' ? 1 : comparison === 'previous_year' ? 12 : null;

export const maxReportDimensions = 3;
export const reportLimits = { min: 1, max: 1_000, default: 100 } as const;

export type ReportOrder = {
  /** A measure or a dimension of the report. */
  readonly by: ReportMeasure | ReportDimension;
  readonly isDescending: boolean;
};

export type PurchaseReportQuery = LocalCalendar & {
  /** With `compareTo`, `createdSince` is given. */
  readonly filters: PurchaseFilters;
  /** At least one. */
  readonly measures: readonly ReportMeasure[];
  /** The measures of `totals`; those of the rows if undefined. */
  readonly totals?: readonly ReportMeasure[] | undefined;
  /**
   * Up to three, with at most one of `periodDimensions`. `auto` is the shortest period of which there are at most
   * `maxAutoPeriods`.
   */
  readonly groupBy: readonly (ReportDimension | 'auto')[];
  /** Then `thenBy`, then the dimensions in their order, ascending. Missing values are last. */
  readonly orderBy: ReportOrder | null;
  readonly thenBy?: readonly ReportOrder[] | undefined;
  /** The most rows, or the most values of the first dimension with every period of the second one. */
  readonly limit: number;
  /**
   * Every period has a row, with or without purchases: of the report, or of each value of a label before the
   * period. If undefined, periods alone are complete.
   */
  readonly everyPeriod?: boolean | undefined;
  /** Not refused if there may be too many groups in memory: statistics and time series have few, or sort them. */
  readonly mayHaveManyGroups?: boolean | undefined;
  /** `maxPeriods` of period-limit.ts if undefined. */
  readonly maxPeriods?: number | undefined;
  readonly compareTo?: Comparison | undefined;
};

export type Currencies = {
  /** The single currency of the matching purchases; null if there is none or several. */
  readonly currency: string | null;
  readonly mixedCurrencies: boolean;
};

/** Inclusive bounds (microseconds since 1970); null if there is none. */
export type ReportPeriod = { readonly since: bigint | null; readonly until: bigint | null };

/** The values of the query's measures, in their order. */
export type ReportValues = readonly bigint[];

/**
 * The value of a dimension: a text, the id of a customer (bigint), a number of `weekday` or
 * `hour_of_day`, the first instant of a period (bigint), or null without a value.
 */
export type DimensionValue = string | bigint | number | null;

export type ReportRow = {
  /** In the order of the query's dimensions. */
  readonly keys: readonly DimensionValue[];
  readonly values: ReportValues;
  /** Of the compared period; null without one. */
  readonly compared: ReportValues | null;
};

export const noCurrency: Currencies = { currency: null, mixedCurrencies: false };

export function currenciesOf([currency, another]: readonly string[]): Currencies {
  const mixedCurrencies = another !== undefined;
  return { currency: mixedCurrencies ? null : (currency ?? null), mixedCurrencies };
}

/** The currencies are those of both periods, because a row has amounts of both. */
export type PurchaseReport = Currencies & {
  readonly groupBy: readonly ReportDimension[];
  readonly period: ReportPeriod;
  readonly comparedPeriod: ReportPeriod | null;
  /** Of all matching purchases, whatever `limit` is. */
  readonly totals: Omit<ReportRow, 'keys'>;
  readonly rows: readonly ReportRow[];
  readonly rowsTruncated: boolean;
};

/** Customers by the period of their first purchase. */
export type PurchaseCohortsQuery = LocalCalendar & {
  /** Those other than the payment statuses select first purchases. */
  readonly filters: PurchaseFilters;
  readonly interval: 'week' | 'month' | 'quarter';
  /** A dimension of first purchases. */
  readonly groupBy?: LabelDimension | undefined;
  /** How many periods to follow each cohort for, with the first; 1 to 60. */
  readonly periods: number;
};

export const cohortIntervals = ['week', 'month', 'quarter'] as const;
export const cohortPeriods = { min: 1, max: 60, default: 12 } as const;
export const maxCohorts = 120;

export type CohortPeriod = {
  /** Distinct customers of the cohort with a purchase in this period. */
  readonly customerCount: bigint;
  readonly purchaseCount: bigint;
  readonly revenueInCents: bigint;
  /** The period has ended before the instant of the data. */
  readonly isComplete: boolean;
};

export type Cohort = {
  /** The first instant of the period; microseconds since 1970. */
  readonly startsAt: bigint;
  readonly key: string | null;
  readonly customerCount: bigint;
  /** From the period of the first purchase on, up to the present. */
  readonly periods: readonly CohortPeriod[];
};

export type PurchaseCohorts = Currencies & {
  /** In the order of time, then of the dimension. */
  readonly cohorts: readonly Cohort[];
};

export class TooManyCohortsError extends Error {
  override readonly name = 'TooManyCohortsError';
}

export class TooManyGroupsError extends Error {
  override readonly name = 'TooManyGroupsError';
  readonly count: number;
  readonly max: number;

  constructor(count: number, max: number) {
    super(`${count} groups`);
    this.count = count;
    this.max = max;
  }
}
