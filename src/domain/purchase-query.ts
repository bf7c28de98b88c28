import type { Interval, LocalCalendar } from './period.ts';
import { maxPeriods, maxPeriodsWithoutGroups } from './period-limit.ts';
import {
  type PaymentStatus,
  type Platform,
  type PurchaseLabel,
  trackingLabels,
} from './purchase.ts';
import type { ZoneOffset } from './time-zone.ts';

/**
 * The filters of sections 4.2 and 4.4. Every bound is inclusive. Instants are microseconds since
 * 1970-01-01T00:00:00Z.
 */
export type PurchaseFilters = {
  readonly customerId?: bigint | undefined;
  /** One or more, without repetition, in the order of `paymentStatuses`. */
  readonly paymentStatuses?: readonly PaymentStatus[] | undefined;
  /** One or more, without repetition, in the order of `platforms`. */
  readonly platforms?: readonly Platform[] | undefined;
  readonly createdSince?: bigint | undefined;
  readonly createdUntil?: bigint | undefined;
  readonly minValueInCents?: bigint | undefined;
  readonly maxValueInCents?: bigint | undefined;
  /** One or more dimensions of which matching purchases have no value, in the order of `optionalDimensions`. */
  readonly without?: readonly OptionalDimension[] | undefined;
  /** One or more codes, without repetition. A matching purchase has a coupon with one of them. */
  readonly coupon?: readonly string[] | undefined;
  /** Values that a matching purchase does not have. It may have none. */
  readonly not?: ExcludedValues | undefined;
  readonly localTimes?: LocalTimes | undefined;
  /** Of reports alone: only first purchases of customers, or only others (purchase-report.ts). */
  readonly customerType?: CustomerType | undefined;
} & {
  /** One or more exact texts, without repetition. A matching purchase has one of them. */
  readonly [Label in TextFilter]?: readonly string[] | undefined;
};

export const customerTypes = ['new', 'returning'] as const;
export type CustomerType = (typeof customerTypes)[number];

/** One or more values of some dimensions, without repetition. */
export type ExcludedValues = { readonly [Name in OptionalDimension]?: readonly string[] };

/** Times of the week. Undefined: any. */
export type LocalTimes = {
  /** One or more of 1 (Monday) to 7. */
  readonly weekdays?: readonly number[] | undefined;
  /** One or more of 0 to 23. */
  readonly hours?: readonly number[] | undefined;
  /** Those of the time zone at all instants that a query may select. */
  readonly offsets: readonly ZoneOffset[];
};

/** The labels that filters compare with any texts, and not with those of a closed set. */
export const textFilters = ['currency', ...trackingLabels] as const;
type TextFilter = (typeof textFilters)[number];

/** Whether filters need the coupons of a purchase. */
export const readsCoupons = ({ coupon, without, not }: PurchaseFilters): boolean =>
  coupon !== undefined || without?.includes('coupon') === true || not?.coupon !== undefined;

export const isUnfiltered = (filters: PurchaseFilters): boolean =>
  Object.values(filters).every((value) => value === undefined);

/** One condition for each filter. A filter without a condition is a compile error. */
export type FilterConditions<Condition, Filters = Omit<PurchaseFilters, 'customerType'>> = {
  readonly [Filter in keyof Filters]-?: (value: NonNullable<Filters[Filter]>) => Condition;
};

export function conditionsOf<Condition, Filters = Omit<PurchaseFilters, 'customerType'>>(
  filters: Filters,
  conditions: FilterConditions<Condition, Filters>,
): Condition[] {
  return (Object.keys(conditions) as (keyof Filters)[])
    .filter((filter) => filters[filter] !== undefined)
    .map((filter) => conditions[filter](filters[filter] as NonNullable<Filters[typeof filter]>));
}

export type PurchaseListQuery = {
  readonly filters: PurchaseFilters;
  /** 1 to 100. */
  readonly limit: number;
  /** The last purchase of the previous page, or the place that it had. It need not match the filters. */
  readonly startingAfter?: bigint | PurchasePlace | undefined;
};

/** The place of a purchase in the order of creation and id. */
export type PurchasePlace = { readonly id: bigint; readonly createdAt: bigint };

/** Section 4.4. `status` is the payment status, as in the filter. */
export const statsDimensions = [
  'status',
  'platform',
  'currency',
  'day',
  ...trackingLabels,
] as const;
export type StatsDimension = (typeof statsDimensions)[number];

export const labelOfDimension = (dimension: LabelDimension): PurchaseLabel =>
  dimension === 'status' ? 'payment_status' : dimension;

export type PurchaseStatsQuery = {
  readonly filters: PurchaseFilters;
  readonly groupBy?: StatsDimension | undefined;
  /** 1 to 50. */
  readonly groupLimit: number;
  /** The canonical name of the time zone of `day`; UTC if undefined. */
  readonly timeZone?: string | undefined;
};

/** The dimensions of a time series: periods take the place of days. */
export const seriesDimensions = statsDimensions.filter((dimension) => dimension !== 'day') as [
  SeriesDimension,
  ...SeriesDimension[],
];
type SeriesDimension = Exclude<StatsDimension, 'day'>;

/** The names of labels in parameters. */
export const labelDimensions = [...seriesDimensions, 'shipping_status'] as const;
export type LabelDimension = (typeof labelDimensions)[number];

/** The dimensions of which a purchase may have no value. */
export const optionalDimensions = [...labelDimensions, 'coupon'] as const;
export type OptionalDimension = (typeof optionalDimensions)[number];

export type PurchaseTimeSeriesQuery = LocalCalendar & {
  /** `auto`: the shortest one that has at most `maxAutoPeriods` periods. */
  readonly interval: Interval | 'auto';
  readonly filters: PurchaseFilters;
  readonly groupBy?: SeriesDimension | undefined;
  /** 1 to 50. */
  readonly groupLimit: number;
};

export const maxPeriodsOf = ({ groupBy }: Pick<PurchaseTimeSeriesQuery, 'groupBy'>): number =>
  groupBy === undefined ? maxPeriodsWithoutGroups : maxPeriods;

export const pageLimits = { min: 1, max: 100, default: 25 } as const;
export const groupLimits = { min: 1, max: 50, default: 10 } as const;
export const maxTextLength = 256;
/** How many texts a filter may have. */
export const maxTexts = 50;
