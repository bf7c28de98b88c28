import { minorDigits } from '../../../domain/currency.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../../domain/purchase.ts';
import { labelDimensions } from '../../../domain/purchase-query.ts';

/** The filters of the page. Each is the parameter of the same name. */
export type Filter = { readonly name: string; readonly label: string } & (
  | { readonly kind: 'choice'; readonly values: readonly string[] }
  /** Text that many purchases share, so the page suggests values. */
  | { readonly kind: 'label' }
  | { readonly kind: 'money' }
  | { readonly kind: 'text'; readonly example: string }
);

export const labelOfTracking = (name: string): string => `UTM ${name.replace(/^utm_/, '')}`;

export const filters: readonly Filter[] = [
  { name: 'status', label: 'Payment status', kind: 'choice', values: paymentStatuses },
  { name: 'platform', label: 'Platform', kind: 'choice', values: platforms },
  ...trackingLabels.map((name): Filter => ({ name, label: labelOfTracking(name), kind: 'label' })),
  { name: 'min_value_in_cents', label: 'Value from', kind: 'money' },
  { name: 'max_value_in_cents', label: 'Value up to', kind: 'money' },
  { name: 'without', label: 'Without', kind: 'choice', values: labelDimensions },
  { name: 'customer_id', label: 'Customer', kind: 'text', example: 'cus_…' },
];

export const filterNamed = (name: string): Filter | undefined =>
  filters.find((filter) => filter.name === name);

/** The values of filters, by name. */
export type Filters = Readonly<Record<string, string>>;

/** Adds a name to the filter by purchases without a value. */
export function withoutValue(filters: Filters, name: string): Filters {
  const names = new Set(filters.without?.split(','));
  return { ...filters, without: [...names.add(name)].join() };
}

/** Whether a filter leaves one value of a dimension, or none. */
export const isSelected = (filters: Filters, dimension: string): boolean =>
  filters[dimension] !== undefined || filters.without?.split(',').includes(dimension) === true;

const dimensionOrder = [...trackingLabels, 'platform', 'status'];

/** What to rank by after a value of a dimension is selected: a ranking of one row says nothing. */
export function nextDimension(dimension: string, filters: Filters): string {
  const after = dimensionOrder.indexOf(dimension) + 1;
  const order = [...dimensionOrder.slice(after), ...dimensionOrder.slice(0, after)];
  return order.find((name) => !isSelected(filters, name)) ?? 'day';
}

/** Reads an amount such as 12.34 or 12,34 of a currency. Null if it is no amount. */
export function amountOf(text: string, currency: string | null): string | null {
  const digits = minorDigits(currency);
  const [, units, fraction = ''] = /^\s*(\d{1,16})(?:[.,](\d+))?\s*$/.exec(text) ?? [];
  if (units === undefined || fraction.length > digits) return null;
  return String(BigInt(units + fraction.padEnd(digits, '0')));
}

/** The value of a filter that a user enters. Null if it is none. */
export function readValue(filter: Filter, text: string, currency: string | null): string | null {
  if (filter.kind === 'money') return amountOf(text, currency);
  // Spaces may be part of a label.
  const value = filter.kind === 'text' ? text.trim() : text;
  return value === '' ? null : value;
}
