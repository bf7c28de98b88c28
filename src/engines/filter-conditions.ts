import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../domain/purchase.ts';
import {
  type FilterConditions,
  labelOfDimension,
  type OptionalDimension,
} from '../domain/purchase-query.ts';
import type { ZoneOffset } from '../domain/time-zone.ts';

/** Conditions on a label. */
type LabelConditions = {
  hasAnyOf(label: PurchaseLabel, values: readonly string[]): Sql;
  /** Another value, or none. */
  hasNoneOf(label: PurchaseLabel, values: readonly string[]): Sql;
  hasNone(label: PurchaseLabel): Sql;
};

/** Conditions on the codes of coupons. */
export type CouponConditions = {
  hasAnyOf(codes: readonly string[]): Sql;
  readonly hasNone: Sql;
};

/** Conditions on labels in columns of text. */
const ofText: LabelConditions = {
  hasAnyOf: (label, values) =>
    isAnyOf(
      raw(label),
      values.map((value) => sql`${value}`),
    ),
  hasNoneOf: (label, values) =>
    sql`(${ofText.hasNone(label)} or not (${ofText.hasAnyOf(label, values)}))`,
  hasNone: (label) => sql`${raw(label)} is null`,
};

/** A condition on a column of text: one of these values, of which null is a missing one. */
export function isAnyOfTexts(label: PurchaseLabel, values: readonly (string | null)[]): Sql {
  const texts = values.filter((value) => value !== null);
  const isOfTexts = texts.length === 0 ? raw('false') : ofText.hasAnyOf(label, texts);
  return values.includes(null) ? sql`(${isOfTexts} or ${ofText.hasNone(label)})` : isOfTexts;
}

/** How conditions of an engine differ from those of others. */
type EngineConditions = {
  readonly instant: (microseconds: bigint) => Sql;
  /** The whole days or hours of local time since 0001-01-01 of a purchase. */
  readonly localUnits: (offsets: readonly ZoneOffset[], unit: 'day' | 'hour') => Sql;
  readonly coupons: CouponConditions;
  readonly labels?: LabelConditions;
};

/** The conditions of filters on columns named as in Postgres. */
export const filterConditions = ({
  instant,
  localUnits,
  coupons,
  labels: { hasAnyOf, hasNoneOf, hasNone } = ofText,
}: EngineConditions): FilterConditions<Sql> => ({
  customerId: (id) => sql`customer_id = ${id}`,
  paymentStatuses: (statuses) => hasAnyOf('payment_status', statuses),
  platforms: (platforms) => hasAnyOf('platform', platforms),
  createdSince: (since) => sql`created_at >= ${instant(since)}`,
  createdUntil: (until) => sql`created_at <= ${instant(until)}`,
  minValueInCents: (cents) => sql`purchase_value_in_cents >= ${cents}`,
  maxValueInCents: (cents) => sql`purchase_value_in_cents <= ${cents}`,
  currency: (values) => hasAnyOf('currency', values),
  without: (dimensions) =>
    join(
      dimensions.map((dimension) =>
        dimension === 'coupon' ? coupons.hasNone : hasNone(labelOfDimension(dimension)),
      ),
      ' and ',
    ),
  coupon: coupons.hasAnyOf,
  not: (excluded) =>
    join(
      (Object.entries(excluded) as [OptionalDimension, readonly string[]][]).map(
        ([name, values]) =>
          name === 'coupon'
            ? sql`not ${coupons.hasAnyOf(values)}`
            : hasNoneOf(labelOfDimension(name), values),
      ),
      ' and ',
    ),
  localTimes: ({ weekdays, hours, offsets }) => {
    const isAmong = (value: Sql, wanted: readonly number[] | undefined) =>
      wanted === undefined ? [] : [sql`${value} in (${raw(wanted.join())})`];
    return join(
      [
        ...isAmong(sql`(${localUnits(offsets, 'day')} % 7 + 1)`, weekdays),
        ...isAmong(sql`(${localUnits(offsets, 'hour')} % 24)`, hours),
      ],
      ' and ',
    );
  },
  utm_source: (values) => hasAnyOf('utm_source', values),
  utm_medium: (values) => hasAnyOf('utm_medium', values),
  utm_campaign: (values) => hasAnyOf('utm_campaign', values),
  utm_content: (values) => hasAnyOf('utm_content', values),
  utm_term: (values) => hasAnyOf('utm_term', values),
});

/** Up to so many values are compared one by one. */
const maxComparisons = 8;

/**
 * DuckDB turns IN into a join from six values on, and a page then reads all row groups instead of the newest
 * ones. But a comparison with each of 50 values took statistics ten times as long as the join.
 */
export function isAnyOf(column: Sql, values: readonly Sql[]): Sql {
  if (values.length > maxComparisons) return sql`${column} in (${join(values)})`;
  const equal = values.map((value) => sql`${column} = ${value}`);
  return equal.length === 1 ? (equal[0] as Sql) : sql`(${join(equal, ' or ')})`;
}
