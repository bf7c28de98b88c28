import { z } from 'zod';
import { currencyCode } from '../../domain/currency.ts';
import { intervals, weekStarts } from '../../domain/period.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../domain/purchase.ts';
import {
  customerTypes,
  groupLimits,
  labelDimensions,
  maxTextLength,
  maxTexts,
  optionalDimensions,
  seriesDimensions,
  statsDimensions,
} from '../../domain/purchase-query.ts';
import {
  cohortIntervals,
  cohortPeriods,
  comparisons,
  maxReportDimensions,
  type ReportOrder,
  reportDimensions,
  reportLimits,
  reportMeasures,
} from '../../domain/purchase-report.ts';
import { exportFormatNames, formatNames } from '../../http/formats/negotiation.ts';
import { formatParameters } from '../../http/request/format-parameters.ts';
import {
  cents,
  id,
  instant,
  integer,
  namesOf,
  numbersOf,
  oneOf,
  orderedNamesOf,
  pageParameters,
  severalOf,
  text,
  timeZone,
} from '../../http/request/parameters.ts';
import { excludedValue } from './excluded-values.ts';

const label = text({ min: 1, max: maxTextLength });
const labels = severalOf(label, maxTexts).optional();
const tracking = Object.fromEntries(trackingLabels.map((name) => [name, labels])) as Record<
  (typeof trackingLabels)[number],
  typeof labels
>;

/** Codes of ISO 4217 in upper case, and other texts as they are. */
const currency = label.transform((value) => currencyCode(value) ?? value).meta({ ...label.meta() });

/**
 * Sections 4.2 and 4.4 without customer_id, which the customer's list has in its path. Additions are the
 * tracking filters of lists, `currency` and `without`.
 */
const commonFilters = {
  status: namesOf(paymentStatuses, 'any').optional(),
  platform: namesOf(platforms).optional(),
  created_since: instant('lower').optional(),
  created_until: instant('upper').optional(),
  min_value_in_cents: cents().optional(),
  max_value_in_cents: cents().optional(),
  currency: severalOf(currency, maxTexts).optional(),
  without: namesOf(optionalDimensions).optional(),
  ...tracking,
  coupon: labels,
  not: severalOf(excludedValue, maxTexts).optional(),
  weekday: numbersOf(1, 7).optional(),
  hour_of_day: numbersOf(0, 23).optional(),
};
const filters = { customer_id: id('customer').optional(), ...commonFilters };
/** An addition: of statistics and reports, which tell first purchases. */
const ofReports = { ...filters, customer_type: oneOf(customerTypes).optional() };

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
  ...ofReports,
  group_by: oneOf(statsDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
});

/** An addition: the parameters of statistics, by period. */
export const purchaseTimeSeriesParameters = z.strictObject({
  interval: oneOf([...intervals, 'auto']),
  ...ofReports,
  group_by: oneOf(seriesDimensions).optional(),
  group_limit: integer(groupLimits),
  ...format,
  timezone: timeZone(),
  week_start: oneOf(weekStarts).optional(),
});

/** An addition: several measures by several dimensions. */
export const purchaseReportParameters = z.strictObject({
  measures: orderedNamesOf(reportMeasures).optional(),
  ...ofReports,
  group_by: orderedNamesOf(reportDimensions, maxReportDimensions)
    .optional()
    .describe(
      'Dimensions, at most one a period such as `month`. Up to three. Without it, there are totals alone. Several have commas between them. A row with `null` has the purchases without a value. A purchase is in the row of each `coupon` that it has. `customer_type` is `new` for the first purchase of a customer with the statuses of `status`, and `returning` for others. `weekday` is 1 (Monday) to 7.',
    ),
  order_by: reportOrder().optional(),
  limit: integer(reportLimits).describe(
    'How many rows at most. `rows_truncated` says whether there were more. Totals cover all.',
  ),
  compare_to: oneOf(comparisons).optional(),
  expand: oneOf(['customer']).optional(),
  ...format,
  timezone: timeZone(),
  week_start: oneOf(weekStarts).optional(),
});

/** An addition: customers by the period of their first purchase. */
export const purchaseCohortsParameters = z.strictObject({
  interval: oneOf(cohortIntervals)
    .default('month')
    .describe('The length of the periods. Without it, `month`. An addition.'),
  ...filters,
  created_since: filters.created_since.describe(
    'First purchases at or after this instant. Selects cohorts. Without an offset it is UTC.',
  ),
  created_until: filters.created_until.describe(
    'First purchases at or before this instant. Selects cohorts, inclusive. Later purchases count up to the present. Without an offset it is UTC.',
  ),
  group_by: oneOf(labelDimensions)
    .optional()
    .describe(
      'By this label of the first purchase. The value is in `key`, `null` without one. What customers bought since counts whatever its label.',
    ),
  periods: integer(cohortPeriods),
  ...format,
  timezone: timeZone(),
  week_start: oneOf(weekStarts).optional(),
});

/** A measure or a dimension, with `-` before it for a descending order. */
function reportOrder() {
  const names: readonly string[] = [...reportMeasures, ...reportDimensions];
  return z
    .string()
    .transform((text, context): ReportOrder => {
      const by = text.replace(/^-/, '');
      if (!names.includes(by)) {
        context.addIssue('must be a measure or a dimension of the report, or one with - before it');
      }
      return { by: by as ReportOrder['by'], isDescending: text.startsWith('-') };
    })
    .meta({ type: 'string', pattern: `^-?(${names.join('|')})$` });
}
