import { minorDigits } from '../../../domain/currency.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../../domain/purchase.ts';
import { labelDimensions } from '../../../domain/purchase-query.ts';
import { decimalMark, texts } from '../language/language.ts';

/** The filters of the page. Each is the parameter of the same name. */
export type Filter = { readonly name: string; readonly label: string } & (
  | {
      readonly kind: 'choice';
      /** Offered until those that occur are known. */
      readonly values: readonly string[];
    }
  /** Names of dimensions of which purchases have no value. */
  | { readonly kind: 'dimension'; readonly values: readonly string[] }
  /** Text that many purchases share, so the page suggests values. */
  | { readonly kind: 'label' }
  | { readonly kind: 'money' }
  | { readonly kind: 'text'; readonly example: string }
);

export const filters: readonly Filter[] = [
  { name: 'status', label: texts.dimensions.status, kind: 'choice', values: paymentStatuses },
  { name: 'platform', label: texts.dimensions.platform, kind: 'choice', values: platforms },
  { name: 'currency', label: texts.dimensions.currency, kind: 'choice', values: [] },
  ...trackingLabels.map((name): Filter => ({ name, label: texts.dimensions[name], kind: 'label' })),
  { name: 'min_value_in_cents', label: texts.filters.minValue, kind: 'money' },
  { name: 'max_value_in_cents', label: texts.filters.maxValue, kind: 'money' },
  { name: 'without', label: texts.filters.without, kind: 'dimension', values: labelDimensions },
  { name: 'customer_id', label: texts.filters.customer, kind: 'text', example: 'cus_…' },
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

/**
 * Reads an amount such as 12.34 or 12,34 of a currency. Null if it is no amount, or three digits follow
 * a mark that groups thousands in the reader's language.
 */
export function amountOf(text: string, currency: string | null): string | null {
  const digits = minorDigits(currency);
  const [, units, mark, fraction = ''] = /^\s*(\d{1,16})(?:([.,])(\d+))?\s*$/.exec(text) ?? [];
  if (units === undefined || fraction.length > digits) return null;
  if (fraction.length === 3 && mark !== decimalMark) return null;
  return String(BigInt(units + fraction.padEnd(digits, '0')));
}

/** The value of a filter that a user enters. Null if it is none. */
export function readValue(filter: Filter, text: string, currency: string | null): string | null {
  if (filter.kind === 'money') return amountOf(text, currency);
  // Spaces may be part of a label.
  const value = filter.kind === 'text' ? text.trim() : text;
  return value === '' ? null : value;
}
