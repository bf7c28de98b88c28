import { z } from 'zod';
import { intervals } from '../domain/period.ts';
import { paymentStatuses, platforms, trackingLabels } from '../domain/purchase.ts';
import {
  groupLimits,
  maxTrackingLength,
  type PurchaseFilters,
  type PurchaseListQuery,
  seriesDimensions,
  statsDimensions,
} from '../domain/purchase-query.ts';
import { exportFormatNames, formatNames } from '../http/formats/negotiation.ts';
import {
  cents,
  id,
  instant,
  integer,
  oneOf,
  pageParameters,
  text,
  timeZone,
} from '../http/request/parameters.ts';

/** Section 4.2 without customer_id, which the customer's list has in its path. */
const commonFilters = {
  status: oneOf(['any', ...paymentStatuses]).optional(),
  platform: oneOf(platforms).optional(),
  created_since: instant('lower').optional(),
  created_until: instant('upper').optional(),
  min_value_in_cents: cents().optional(),
  max_value_in_cents: cents().optional(),
};
const filters = { customer_id: id('customer').optional(), ...commonFilters };

const page = pageParameters('purchase');

/** An addition: the specification has only JSON. */
const format = { format: oneOf(formatNames).optional() };

const tracking = Object.fromEntries(
  trackingLabels.map((label) => [label, text({ min: 1, max: maxTrackingLength }).optional()]),
) as Record<(typeof trackingLabels)[number], z.ZodOptional<ReturnType<typeof text>>>;

export const purchaseListParameters = z.strictObject({ ...page, ...filters, ...format });
export const customerPurchaseListParameters = z.strictObject({
  ...page,
  ...commonFilters,
  ...format,
});
/** An addition: the filters of statistics. */
export const purchaseExportParameters = z.strictObject({
  ...filters,
  ...tracking,
  format: oneOf(exportFormatNames).optional(),
});
/** Section 4.4. */
export const purchaseStatsParameters = z.strictObject({
  ...filters,
  ...tracking,
  group_by: oneOf(statsDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
});

/** An addition: the parameters of statistics, by period. */
export const purchaseTimeSeriesParameters = z.strictObject({
  interval: oneOf(intervals),
  ...filters,
  ...tracking,
  group_by: oneOf(seriesDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
});

export function listQuery(
  parameters: z.output<typeof customerPurchaseListParameters>,
  filters: PurchaseFilters,
): PurchaseListQuery {
  const { limit, starting_after: startingAfter } = parameters;
  return { filters, limit, ...(startingAfter === undefined ? {} : { startingAfter }) };
}

type FilterParameters = Partial<
  Omit<z.output<typeof purchaseListParameters> & z.output<typeof purchaseStatsParameters>, 'format'>
>;

/** Maps parameters to domain filters. The status `any` is no filter. */
export function filtersFrom(parameters: FilterParameters): PurchaseFilters {
  const { status } = parameters;
  return {
    ...defined('customerId', parameters.customer_id),
    ...defined('paymentStatus', status === 'any' ? undefined : status),
    ...defined('platform', parameters.platform),
    ...defined('createdSince', parameters.created_since),
    ...defined('createdUntil', parameters.created_until),
    ...defined('minValueInCents', parameters.min_value_in_cents),
    ...defined('maxValueInCents', parameters.max_value_in_cents),
    ...Object.assign({}, ...trackingLabels.map((label) => defined(label, parameters[label]))),
  };
}

function defined<Name extends keyof PurchaseFilters>(
  name: Name,
  value: PurchaseFilters[Name] | undefined,
): Pick<PurchaseFilters, never> {
  return value === undefined ? {} : { [name]: value };
}
