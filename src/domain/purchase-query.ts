import type { PaymentStatus, Platform, TrackingLabel } from './purchase.ts';

/**
 * Which purchases a question is about (sections 4.2 and 4.4). Every bound is
 * inclusive; instants are microseconds since 1970-01-01T00:00:00Z.
 */
export type PurchaseFilters = {
  readonly customerId?: bigint;
  readonly paymentStatus?: PaymentStatus;
  readonly platform?: Platform;
  readonly createdSince?: bigint;
  readonly createdUntil?: bigint;
  readonly minValueInCents?: bigint;
  readonly maxValueInCents?: bigint;
} & { readonly [Label in TrackingLabel]?: string };

/** Whether the filters leave everything. */
export const isUnfiltered = (filters: PurchaseFilters): boolean =>
  Object.values(filters).every((value) => value === undefined);

/** One condition per filter: leaving out a filter's SQL is a compile error. */
export type FilterConditions<Condition> = {
  readonly [Filter in keyof PurchaseFilters]-?: (
    value: NonNullable<PurchaseFilters[Filter]>,
  ) => Condition;
};

/** Applies an engine's conditions to the filters that are set. */
export function conditionsOf<Condition>(
  filters: PurchaseFilters,
  conditions: FilterConditions<Condition>,
): Condition[] {
  return Object.entries(filters)
    .filter(([, value]) => value !== undefined)
    .map(([filter, value]) =>
      (conditions[filter as keyof PurchaseFilters] as (value: unknown) => Condition)(value),
    );
}

export type PurchaseListQuery = {
  readonly filters: PurchaseFilters;
  /** 1 to 100. */
  readonly limit: number;
  /** The last purchase of the previous page; looked up without the filters. */
  readonly startingAfter?: bigint;
};

/** Section 4.4. `status` is the payment status, as it is in the filter. */
export const statsDimensions = [
  'status',
  'platform',
  'currency',
  'day',
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_content',
  'utm_term',
] as const;
export type StatsDimension = (typeof statsDimensions)[number];

export type PurchaseStatsQuery = {
  readonly filters: PurchaseFilters;
  readonly groupBy?: StatsDimension;
  /** 1 to 50. */
  readonly groupLimit: number;
  /** Whose days `day` groups by, by its canonical name; UTC's where undefined. */
  readonly timeZone?: string;
};

export const pageLimits = { least: 1, most: 100, default: 25 } as const;
export const groupLimits = { least: 1, most: 50, default: 10 } as const;
export const trackingLengthLimit = 256;
