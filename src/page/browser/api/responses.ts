import type { ExactInteger } from './exact-json.ts';

/** The parts of responses that the page reads. */

export type Amounts = {
  readonly purchase_count: ExactInteger;
  readonly revenue_in_cents: ExactInteger;
  readonly average_ticket_in_cents: ExactInteger;
  readonly customer_count: ExactInteger;
};

/** The first and the last instant; null without a bound. */
export type Bounds = { readonly since: string | null; readonly until: string | null };

/** The bounds of a report, and the local days between them; null without both bounds. */
type ReportPeriod = Bounds & { readonly days: number | null };

/** `compared` is missing without a comparison. */
type Compared = Amounts & { readonly compared?: Amounts };

/** The values of its dimensions are under their names. */
export type ReportRow = Compared & {
  /** With `expand=customer`; null if the customer has none. */
  readonly customer_name?: string | null;
  readonly customer_email?: string | null;
  readonly customer_phone?: string | null;
  readonly [dimension: string]: unknown;
};

export type Report = {
  readonly timezone: string;
  readonly group_by: readonly string[];
  readonly period: ReportPeriod;
  readonly compared_period: ReportPeriod | null;
  /** Of the period and of the compared one. */
  readonly currency: string | null;
  readonly mixed_currencies: boolean;
  readonly totals: Compared;
  readonly rows: readonly ReportRow[];
  readonly rows_truncated: boolean;
};

export type SalesAmounts = {
  readonly purchase_count: ExactInteger;
  readonly revenue_in_cents: ExactInteger;
  readonly discount_in_cents: ExactInteger;
  readonly shipping_cost_customer_in_cents: ExactInteger;
};

type SalesReportBy<Dimension extends string> = Pick<Report, 'currency' | 'mixed_currencies'> & {
  readonly totals: SalesAmounts;
  readonly rows: readonly (SalesAmounts & Readonly<Record<Dimension, string | null>>)[];
  readonly rows_truncated: boolean;
};

export type SalesReport = SalesReportBy<'status'>;
export type CouponReport = SalesReportBy<'coupon'>;

export type Cohorts = {
  readonly interval: string;
  readonly timezone: string;
  readonly rows: readonly Cohort[];
};

export type Cohort = {
  /** The first instant of the period of the first purchases. */
  readonly cohort: string;
  readonly customer_count: ExactInteger;
  /** The period of the first purchase, the next one, and so on. */
  readonly periods: readonly CohortPeriod[];
};

export type CohortPeriod = {
  readonly customer_count: ExactInteger;
  readonly is_complete: boolean;
};

export type Period = Amounts & { readonly starts_at: string };

export type TimeSeries = {
  readonly currency: string | null;
  readonly group_by: string | null;
  readonly series_truncated: boolean;
  readonly interval: string;
  readonly timezone: string;
  readonly series: readonly { readonly key: string | null; readonly periods: readonly Period[] }[];
};

export type Purchase = {
  readonly id: string;
  readonly customer_id: string;
  /** Added by the page. */
  readonly customer_name?: string;
  readonly purchase_value_in_cents: ExactInteger;
  readonly created_at: string;
  readonly order_number?: string;
  readonly payment_status?: string;
  readonly currency?: string;
};

export type Customer = {
  readonly id: string;
  readonly name?: string;
  readonly email?: string;
  readonly phone?: string;
};

export type Page<Item> = { readonly data: readonly Item[]; readonly has_more: boolean };
