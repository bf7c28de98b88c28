import { pageLimits, seriesDimensions } from '../../../domain/purchase-query.ts';
import { reportLimits } from '../../../domain/purchase-report.ts';
import { pathOf } from '../api/path.ts';
import { weekStart } from '../language/language.ts';
import { addDays, dayAt } from './calendar.ts';
import { parametersOf, withoutFilter, withValues } from './filters.ts';
import { beginOfWeek } from './interval.ts';
import { boundsOf, type Days, daysOf, intervalFor, isPossible, isPresent } from './period.ts';
import { defaultStatus, isMoney, type ViewState } from './view-state.ts';

/**
 * The API requests of a view, as paths. Downloads and lines for `curl` have the same paths. Null: a filter
 * does not apply to the request.
 */
export type Requests = {
  readonly totals: string;
  /** A report, or a time series if the chart has a line for each group. */
  readonly series: string;
  readonly ranking: string;
  /** By payment status, whatever the filter by it is. */
  readonly sales: string | null;
  /** Paid purchases by coupon. The row of purchases without a coupon comes early. */
  readonly coupons: string | null;
  readonly customer_types: string;
  readonly customers: string;
  readonly cohorts: string | null;
  readonly currencies: string;
  readonly purchases: string | null;
  readonly parquet: string | null;
  readonly all: string | null;
};

/** Inputs of the requests in addition to the view state. */
export type RequestContext = {
  /** When the data are requested: a period such as 30 days ends then. */
  readonly at: number;
  readonly hasSeveralCurrencies: boolean;
  readonly purchaseCount: number;
  /** The automatic interval of all time, if the data are known. */
  readonly interval?: string | undefined;
};

const salesMeasures =
  'purchase_count,revenue_in_cents,discount_in_cents,shipping_cost_customer_in_cents';
const cohortCount = 12;
const bestCustomers = '10';

/** By what the chart is split; null for one line. Amounts of several currencies stay apart. */
function chartDimension(
  { measure, split, group_by }: ViewState,
  hasSeveralCurrencies: boolean,
): string | null {
  if (hasSeveralCurrencies && isMoney(measure)) return 'currency';
  return split === 'groups' && canSplit(group_by) ? group_by : null;
}

/** Whether the chart can have a line for each group of a dimension. */
export const canSplit = (dimension: string): boolean =>
  (seriesDimensions as readonly string[]).includes(dimension);

export function requestsOf(state: ViewState, context: RequestContext): Requests {
  const { timezone } = state;
  const filters = parametersOf(state.filters);
  const days = daysOf(state, context.at);
  const selection = { ...boundsOf(days, timezone), ...filters };
  const reported = reportedSelection(state, days, context.at);
  const ofAnyStatus = { ...state, filters: withoutFilter(state.filters, 'status') };
  const report = (parameters: object) =>
    pathOf('/purchases/report', { ...parameters, timezone, ...reported });
  // Lists and exports take a time zone for filters by local time alone.
  const isLocal = filters.weekday !== undefined || filters.hour_of_day !== undefined;
  const listed = { ...selection, ...(isLocal && { timezone }) };
  const file = (parameters: object) => pathOf('/purchases/export', { ...listed, ...parameters });
  // Lists, exports and cohorts refuse this filter, and without `status`, other purchases are first ones.
  const unlessByCustomerType = (path: string) =>
    filters.customer_type === undefined ? path : null;
  const isChosen = state.interval !== 'auto' && isPossible(state.interval, days, state.compare_to);
  const automatic = (days === null && context.interval) || intervalFor(days, state.compare_to);
  const interval = isChosen ? state.interval : automatic;
  const dimension = chartDimension(state, context.hasSeveralCurrencies);
  return {
    totals: report({}),
    series:
      dimension === null
        ? report({ group_by: interval, limit: String(reportLimits.max), ...weeksOf(interval) })
        : pathOf('/purchases/timeseries', {
            interval,
            timezone,
            ...weeksOf(interval),
            group_by: dimension,
            group_limit: '5',
            ...selection,
          }),
    ranking: report(rankingParameters(state)),
    sales: unlessByCustomerType(
      pathOf('/purchases/report', {
        group_by: 'status',
        measures: salesMeasures,
        timezone,
        ...reportedSelection(ofAnyStatus, days, context.at),
      }),
    ),
    // Not compared, as no coupon is: rows of the compared time alone would take the place of others.
    coupons: unlessByCustomerType(
      pathOf('/purchases/report', {
        group_by: 'coupon',
        measures: salesMeasures,
        order_by: '-purchase_count',
        timezone,
        ...boundsOf(days, timezone),
        ...parametersOf(withValues(state.filters, 'status', [defaultStatus])),
      }),
    ),
    customer_types: report({ group_by: 'customer_type', order_by: 'customer_type' }),
    // Not compared: customers of the compared time alone are not the best ones of the period.
    customers: pathOf('/purchases/report', {
      group_by: 'customer',
      expand: 'customer',
      measures: 'revenue_in_cents,purchase_count',
      order_by: context.hasSeveralCurrencies ? '-purchase_count' : '-revenue_in_cents',
      limit: bestCustomers,
      timezone,
      ...selection,
    }),
    cohorts: unlessByCustomerType(
      pathOf('/purchases/cohorts', {
        interval: state.cohort_interval,
        periods: String(cohortCount),
        timezone,
        ...weeksOf(state.cohort_interval),
        ...filters,
        ...boundsOf(daysOfCohorts(state, days, context.at), timezone),
      }),
    ),
    currencies: report({ group_by: 'currency', order_by: '-purchase_count' }),
    purchases: unlessByCustomerType(
      pathOf('/purchases', {
        limit: String(Math.min(context.purchaseCount, pageLimits.max)),
        ...listed,
      }),
    ),
    parquet: unlessByCustomerType(file({ format: 'parquet' })),
    all: unlessByCustomerType(file({})),
  };
}

/** With which day the weeks of an interval begin. */
const weeksOf = (interval: string) =>
  interval === 'week' && weekStart !== 'monday' ? { week_start: weekStart } : {};

/** The time and filters of reports. A present period has no end, so it ends with the data. */
function reportedSelection(
  { compare_to, timezone, filters: values }: ViewState,
  days: Days | null,
  at: number,
) {
  const bounds = boundsOf(days, timezone);
  const filters = parametersOf(values);
  if (days === null || compare_to === 'none') return { ...bounds, ...filters };
  const { created_since } = bounds;
  return {
    compare_to,
    ...(isPresent(days, timezone, at) ? { created_since } : bounds),
    ...filters,
  };
}

/** The largest first: of an average, by revenue. */
function rankingParameters({ group_by, then_by, group_limit, measure }: ViewState) {
  return {
    group_by: then_by === 'none' ? group_by : `${group_by},${then_by}`,
    order_by: measure === 'average_ticket_in_cents' ? '-revenue_in_cents' : `-${measure}`,
    limit: group_limit,
  };
}

/** The days of the last cohorts, from the first one's beginning: a short period has too few. */
export function daysOfCohorts(
  { cohort_interval, timezone }: ViewState,
  days: Days | null,
  at: number,
) {
  const to = days?.to ?? dayAt(at, timezone);
  const before = cohortCount - 1;
  if (cohort_interval === 'week') return { from: beginOfWeek(addDays(to, -7 * before)), to };
  const months = cohort_interval === 'month' ? 1 : 3;
  const month = Number(to.slice(5, 7)) - 1;
  const first = month - (month % months) - before * months;
  const from = new Date(Date.UTC(Number(to.slice(0, 4)), first, 1)).toISOString().slice(0, 10);
  return { from, to };
}

/** The values with the largest revenue of a dimension in the period, whatever the filters are. */
export const suggestionsPath = (state: ViewState, group_by: string): string =>
  pathOf('/purchases/report', {
    group_by,
    measures: 'revenue_in_cents',
    limit: '50',
    ...boundsOf(daysOf(state), state.timezone),
  });
