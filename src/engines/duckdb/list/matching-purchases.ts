import { couponCodes } from '../../../domain/coupon-codes.ts';
import { earliestInstant } from '../../../domain/instant.ts';
import { keyOf } from '../../../domain/period.ts';
import type { Purchase } from '../../../domain/purchase.ts';
import {
  conditionsOf,
  type FilterConditions,
  labelOfDimension,
  type OptionalDimension,
  type PurchaseFilters,
} from '../../../domain/purchase-query.ts';

type IsMatching = (purchase: Purchase) => boolean;

/** The conditions of the filters in JavaScript. `filter-conditions.ts` has them in SQL. */
const conditions: FilterConditions<IsMatching> = {
  customerId: (id) => (purchase) => purchase.customer_id === id,
  paymentStatuses: (statuses) => (purchase) => isAnyOf(purchase.payment_status, statuses),
  platforms: (platforms) => (purchase) => isAnyOf(purchase.platform, platforms),
  createdSince: (since) => (purchase) => purchase.created_at >= since,
  createdUntil: (until) => (purchase) => purchase.created_at <= until,
  minValueInCents: (cents) => (purchase) => purchase.purchase_value_in_cents >= cents,
  maxValueInCents: (cents) => (purchase) => purchase.purchase_value_in_cents <= cents,
  currency: (values) => (purchase) => isAnyOf(purchase.currency, values),
  without: (dimensions) => (purchase) =>
    dimensions.every((dimension) =>
      dimension === 'coupon'
        ? couponCodes(purchase.coupons).length === 0
        : purchase[labelOfDimension(dimension)] === null,
    ),
  not: (excluded) => (purchase) =>
    (Object.entries(excluded) as [OptionalDimension, readonly string[]][]).every(
      ([name, values]) =>
        name === 'coupon'
          ? !couponCodes(purchase.coupons).some((code) => values.includes(code))
          : !isAnyOf(purchase[labelOfDimension(name)], values),
    ),
  localTimes:
    ({ weekdays, hours, offsets }) =>
    ({ created_at: createdAt }) => {
      const zone = offsets.find(({ until }) => until === null || createdAt < until);
      const local = createdAt + (zone?.offset ?? 0n) - earliestInstant;
      const weekday = (keyOf('day', local) % 7) + 1;
      const hour = keyOf('hour', local) % 24;
      return (weekdays?.includes(weekday) ?? true) && (hours?.includes(hour) ?? true);
    },
  coupon: (codes) => (purchase) =>
    couponCodes(purchase.coupons).some((code) => codes.includes(code)),
  utm_source: (values) => (purchase) => isAnyOf(purchase.utm_source, values),
  utm_medium: (values) => (purchase) => isAnyOf(purchase.utm_medium, values),
  utm_campaign: (values) => (purchase) => isAnyOf(purchase.utm_campaign, values),
  utm_content: (values) => (purchase) => isAnyOf(purchase.utm_content, values),
  utm_term: (values) => (purchase) => isAnyOf(purchase.utm_term, values),
};

const isAnyOf = (value: string | null, wanted: readonly string[]): boolean =>
  value !== null && wanted.includes(value);

export const doesMatch = (purchase: Purchase, filters: PurchaseFilters): boolean =>
  conditionsOf(filters, conditions).every((isMatching) => isMatching(purchase));
