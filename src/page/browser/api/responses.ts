import type { ExactInteger } from './exact-json.ts';

/** The parts of responses that the page reads. */

type Amounts = {
  readonly purchase_count: ExactInteger;
  readonly revenue_in_cents: ExactInteger;
  readonly average_ticket_in_cents: ExactInteger;
};

export type Totals = Amounts & {
  readonly customer_count: ExactInteger;
  readonly currency: string | null;
  readonly mixed_currencies: boolean;
};

export type Group = Amounts & { readonly key: string | null };

export type Stats = Totals & {
  readonly group_by: string | null;
  readonly groups: readonly Group[];
  readonly groups_truncated: boolean;
};

export type Period = Amounts & {
  readonly starts_at: string;
  readonly customer_count: ExactInteger;
};

export type TimeSeries = Totals & {
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
