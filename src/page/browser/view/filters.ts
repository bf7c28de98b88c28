import { minorDigits } from '../../../domain/currency.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../../domain/purchase.ts';
import { customerTypes, optionalDimensions } from '../../../domain/purchase-query.ts';
import { decimalMark, locale, texts } from '../language/language.ts';

/** The filters of the page. Each is the parameter of the same name. */
export type Filter = { readonly name: string; readonly label: string } & (
  | {
      readonly kind: 'choice';
      /** Offered until those that occur are known. */
      readonly values: readonly string[];
    }
  /** All values, in their order. */
  | { readonly kind: 'fixed'; readonly values: readonly string[] }
  /** Text that many purchases share, so the page suggests values. */
  | { readonly kind: 'label' }
  | { readonly kind: 'money' }
  | { readonly kind: 'text'; readonly example: string }
);

const numbersFrom = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, index) => String(first + index));

const fixed = (name: keyof typeof texts.dimensions, values: readonly string[]): Filter => ({
  ...{ name, label: texts.dimensions[name], kind: 'fixed', values },
});

export const filters: readonly Filter[] = [
  { name: 'status', label: texts.dimensions.status, kind: 'choice', values: paymentStatuses },
  { name: 'platform', label: texts.dimensions.platform, kind: 'choice', values: platforms },
  { name: 'currency', label: texts.dimensions.currency, kind: 'choice', values: [] },
  ...trackingLabels.map((name): Filter => ({ name, label: texts.dimensions[name], kind: 'label' })),
  { name: 'coupon', label: texts.dimensions.coupon, kind: 'label' },
  fixed('weekday', numbersFrom(1, 7)),
  fixed('hour_of_day', numbersFrom(0, 23)),
  fixed('customer_type', customerTypes),
  { name: 'min_value_in_cents', label: texts.filters.minValue, kind: 'money' },
  { name: 'max_value_in_cents', label: texts.filters.maxValue, kind: 'money' },
  { name: 'without', label: texts.filters.without, kind: 'fixed', values: optionalDimensions },
  { name: 'customer_id', label: texts.dimensions.customer, kind: 'text', example: 'cus_…' },
];

export const filterNamed = (name: string): Filter | undefined =>
  filters.find((filter) => filter.name === name);

/** The values of filters, by name: a purchase has one of them, and none of those of `not`. No list is empty. */
export type Filters = Readonly<Record<string, readonly string[]>>;

/** Parameters whose values have commas between them. Others are given several times. */
const commaLists: readonly string[] = ['status', 'platform', 'without', 'weekday', 'hour_of_day'];

/** Whether a filter may have several values: amounts of several currencies have no sum. */
export const isSeveral = ({ name, kind }: Filter): boolean =>
  kind === 'label' || commaLists.includes(name);

/** Filters as parameters of the API, and of the URL. */
export const parametersOf = (filters: Filters): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(
    Object.entries(filters).map(([name, values]) => [
      name,
      commaLists.includes(name) ? [values.join()] : values,
    ]),
  );

/** Whether a filter may have a value. The API compares other texts. */
export const isPossibleValue = (filter: Filter, value: string): boolean =>
  filter.kind !== 'fixed' || filter.values.includes(value);

/** The values of a filter in the URL. */
export const valuesIn = (name: string, given: readonly string[]): readonly string[] => {
  const values = commaLists.includes(name) ? given.flatMap((text) => text.split(',')) : given;
  return [...new Set(values.filter((value) => value !== ''))];
};

/** Whether the values of a filter may be excluded instead. */
export const canExclude = ({ name }: Filter): boolean =>
  (optionalDimensions as readonly string[]).includes(name);

/** The parameter of values that purchases do not have: each is a name, a colon and a value. */
export const exclusion = 'not';

/** The values of a filter that are excluded. */
export const excludedOf = ({ [exclusion]: texts = [] }: Filters, name: string): string[] =>
  texts.filter((text) => text.startsWith(`${name}:`)).map((text) => text.slice(name.length + 1));

/** Whether the page has a chip for an excluded value. */
export function isExclusion(text: string): boolean {
  const [name = '', ...value] = text.split(':');
  const filter = filterNamed(name);
  return filter !== undefined && canExclude(filter) && value.join() !== '';
}

/** Whether purchases are filtered by a name. */
export const hasFilter = (filters: Filters, name: string): boolean =>
  filters[name] !== undefined || excludedOf(filters, name).length > 0;

/** Filters without one of them. */
export function withoutFilter(filters: Filters, name: string): Filters {
  const { [name]: _, [exclusion]: texts = [], ...others } = filters;
  const left = texts.filter((text) => !text.startsWith(`${name}:`));
  return left.length === 0 ? others : { ...others, [exclusion]: left };
}

/** Filters with these values of one of them. If they are excluded, none is selected, and the reverse. */
export function withValues(
  filters: Filters,
  name: string,
  values: readonly string[],
  isExcluded = false,
): Filters {
  const others = withoutFilter(filters, name);
  if (values.length === 0) return others;
  if (!isExcluded) return { ...others, [name]: values };
  const texts = values.map((value) => `${name}:${value}`);
  return { ...others, [exclusion]: [...(others[exclusion] ?? []), ...texts] };
}

const valuesOf = (filters: Filters, name: string, isExcluded: boolean): readonly string[] =>
  isExcluded ? excludedOf(filters, name) : (filters[name] ?? []);

/** Filters with one more value of one of them, or with that value alone. */
export function withValue(
  filters: Filters,
  filter: Filter,
  value: string,
  isExcluded = false,
): Filters {
  const { name } = filter;
  const before = isExcluded || isSeveral(filter) ? valuesOf(filters, name, isExcluded) : [];
  return withValues(filters, name, [...new Set([...before, value])], isExcluded);
}

/** Filters without a value of one of them. A link may both select and exclude values of a filter. */
export function withoutValue(
  filters: Filters,
  name: string,
  value: string,
  isExcluded = false,
): Filters {
  const [key, text] = isExcluded ? [exclusion, `${name}:${value}`] : [name, value];
  const { [key]: texts = [], ...others } = filters;
  const left = texts.filter((one) => one !== text);
  return left.length === 0 ? others : { ...others, [key]: left };
}

/** Filters with all values of one of them excluded, or selected if they are excluded. */
export function negated(filters: Filters, name: string, isExcluded: boolean): Filters {
  const values = [false, true].flatMap((one) => valuesOf(filters, name, one));
  return withValues(filters, name, [...new Set(values)], isExcluded);
}

/** Adds a name to the filter by purchases without a value. */
export const withMissing = (filters: Filters, name: string): Filters =>
  withValue(filters, filterNamed('without') as Filter, name);

/** Whether a filter leaves one value of a dimension, or none. */
export const isSelected = (filters: Filters, dimension: string): boolean =>
  filters[dimension]?.length === 1 || filters.without?.includes(dimension) === true;

const dimensionOrder = [...trackingLabels, 'platform', 'status'];

/** What to rank by after a value of a dimension is selected: a ranking of one row says nothing. */
export function nextDimension(dimension: string, filters: Filters): string {
  const after = dimensionOrder.indexOf(dimension) + 1;
  const order = [...dimensionOrder.slice(after), ...dimensionOrder.slice(0, after)];
  return order.find((name) => !isSelected(filters, name)) ?? 'day';
}

/** Digits in groups of thousands, as the reader's language writes them, and decimals. */
const grouped =
  decimalMark === ',' ? /^\d{1,3}(\.\d{3})+(,\d+)?$/ : /^\d{1,3}(,\d{2,3})*,\d{3}(\.\d+)?$/;

/** The sign of a currency, such as R$. */
const signOf = (currency: string): string =>
  new Intl.NumberFormat(locale, { style: 'currency', currency })
    .formatToParts(0)
    .find(({ type }) => type === 'currency')?.value ?? currency;

/**
 * Reads an amount such as 12.34, 12,34 or, as the page writes it, R$ 1.234,56. Null if it is no amount
 * of the currency, or if its mark may be that of thousands.
 */
export function amountOf(text: string, currency: string | null): string | null {
  const digits = minorDigits(currency);
  const signs = /^[A-Za-z]{3}$/.test(currency ?? '')
    ? [signOf(currency ?? ''), currency ?? '']
    : [];
  const bare = signs.reduce((rest, sign) => rest.replace(sign, ''), text).replace(/\s/g, '');
  const plain = grouped.test(bare) ? bare.replaceAll(decimalMark === ',' ? '.' : ',', '') : bare;
  const [, units, mark, fraction = ''] = /^(\d{1,16})(?:([.,])(\d+))?$/.exec(plain) ?? [];
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
