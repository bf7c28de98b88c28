import { z } from 'zod';
import { intervals } from '../../domain/period.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../domain/purchase.ts';
import {
  groupLimits,
  maxTrackingLength,
  type PurchaseFilters,
  seriesDimensions,
  statsDimensions,
} from '../../domain/purchase-query.ts';
import { exportFormatNames, formatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import {
  cents,
  id,
  instant,
  integer,
  oneOf,
  pageParameters,
  text,
  timeZone,
} from '../../http/request/parameters.ts';

const tracking = Object.fromEntries(
  trackingLabels.map((label) => [label, text({ min: 1, max: maxTrackingLength }).optional()]),
) as Record<(typeof trackingLabels)[number], z.ZodOptional<ReturnType<typeof text>>>;

/**
 * Sections 4.2 and 4.4 without customer_id, which the customer's list has in its path. Tracking filters
 * of lists are an addition.
 */
const commonFilters = {
  status: oneOf(['any', ...paymentStatuses]).optional(),
  platform: oneOf(platforms).optional(),
  created_since: instant('lower').optional(),
  created_until: instant('upper').optional(),
  min_value_in_cents: cents().optional(),
  max_value_in_cents: cents().optional(),
  ...tracking,
};
const filters = { customer_id: id('customer').optional(), ...commonFilters };

const page = pageParameters('purchase');

const format = formatParameters(formatNames);

export const purchaseListParameters = z.strictObject({ ...page, ...filters, ...format });
export const customerPurchaseListParameters = z.strictObject({
  ...page,
  ...commonFilters,
  ...format,
});
/** An addition: the filters of statistics. */
export const purchaseExportParameters = z.strictObject({
  ...filters,
  ...formatParameters(exportFormatNames),
});
/** Section 4.4. */
export const purchaseStatsParameters = z.strictObject({
  ...filters,
  group_by: oneOf(statsDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
});

/** An addition: the parameters of statistics, by period. */
export const purchaseTimeSeriesParameters = z.strictObject({
  interval: oneOf(intervals),
  ...filters,
  group_by: oneOf(seriesDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
});

type FilterParameters = Partial<Omit<z.output<typeof purchaseListParameters>, 'format'>>;

/** Maps parameters to domain filters. The status `any` is no filter. */
export function filtersFrom(parameters: FilterParameters): PurchaseFilters {
  const { status } = parameters;
  return {
    customerId: parameters.customer_id,
    paymentStatus: status === 'any' ? undefined : status,
    platform: parameters.platform,
    createdSince: parameters.created_since,
    createdUntil: parameters.created_until,
    minValueInCents: parameters.min_value_in_cents,
    maxValueInCents: parameters.max_value_in_cents,
    ...Object.fromEntries(trackingLabels.map((label) => [label, parameters[label]])),
  };
}
