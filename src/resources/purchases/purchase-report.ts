import sql from 'sql-template-tag';
import { z } from 'zod';
import { TooManyPeriodsError } from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  defaultMeasures,
  isPeriodDimension,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportMeasure,
  stepMonths,
  TooManyGroupsError,
} from '../../domain/purchase-report.ts';
import type { ResourceServices } from '../../http/resource-services.ts';
import { ApiError } from '../../http/response/errors.ts';
import { type ApiRequest, type ResourceRoutes, route } from '../../http/route.ts';
import { queryPostgres } from '../record/record-routes.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseReportParameters } from './purchase-parameters.ts';
import {
  type CustomerName,
  type CustomerNames,
  reportResponse,
  reportSchema,
  reportTable,
} from './purchase-report-wire.ts';

/** An addition to the specification: sums of matching purchases by up to three dimensions. */
export const purchaseReport: ResourceRoutes = (services) => [
  route({
    url: '/purchases/report',
    summary: 'Several measures by up to three dimensions, compared with an earlier period',
    description:
      'For sales: revenue, orders, new and returning customers, by campaign, customer or month. ' +
      'Customers of rows do not add up; `totals` has their number.',
    isAddition: true,
    path: z.strictObject({}),
    query: purchaseReportParameters,
    response: reportSchema,
    kind: 'snapshot',
    isSparse: true,
    table: reportTable,
    handle: async (request) => {
      const { query, organizationId, purchases, signal, client } = request;
      const reportQuery = queryFrom(query, await readFilters(request));
      const { result, ...shown } = await purchases
        .report(organizationId, reportQuery, signal, client)
        .catch((error: unknown) => {
          throw refusalOf(error, reportQuery);
        });
      const { compareTo, filters } = reportQuery;
      // The period ends with the instant of the data.
      const isOpen = compareTo !== undefined && filters.createdUntil === undefined;
      const changesAt = isOpen ? shown.asOf + 1n : undefined;
      const isExpanded = query.expand !== undefined;
      const customers = isExpanded ? await customersOf(services, request, result) : undefined;
      return {
        ...shown,
        // Names change without a new version of the purchases.
        version: isExpanded ? null : shown.version,
        changesAt,
        result: await reportResponse(result, reportQuery, customers),
      };
    },
  }),
];

type Parameters = z.output<typeof purchaseReportParameters>;

function queryFrom(parameters: Parameters, filters: PurchaseFilters): PurchaseReportQuery {
  const { measures = defaultMeasures, group_by: groupBy = [], compare_to: compareTo } = parameters;
  const { timezone, limit } = parameters;
  const [period, another] = groupBy.filter(isPeriodDimension);
  if (another !== undefined) {
    throw invalid('group_by', `has ${period} and ${another}: a report has at most one of them`);
  }
  const orderBy =
    parameters.order_by ??
    (period === undefined
      ? { by: measures[0] as ReportMeasure, isDescending: true }
      : { by: period, isDescending: false });
  const names: readonly string[] = [...measures, ...groupBy];
  if (!names.includes(orderBy.by)) {
    throw invalid('order_by', `must be one of ${names.join(', ')}, or one with - before it`);
  }
  if (compareTo !== undefined && parameters.created_since === undefined) {
    throw invalid('compare_to', 'needs created_since, the beginning of the period to compare');
  }
  if (period === 'week' && compareTo !== undefined && stepMonths(compareTo) !== null) {
    throw invalid(
      'compare_to',
      `${compareTo} has no week of the same dates: use previous_year_weekdays, which moves both ` +
        'bounds back by 364 days, or previous_period',
    );
  }
  if (parameters.expand !== undefined && !groupBy.includes('customer')) {
    throw invalid('expand', 'needs group_by=customer, whose rows get the names');
  }
  const timeZone = timezone === 'UTC' ? undefined : timezone;
  return {
    filters,
    measures,
    groupBy,
    timeZone,
    weekStart: parameters.week_start,
    orderBy,
    limit,
    compareTo,
  };
}

const invalid = (param: string, problem: string): ApiError =>
  new ApiError('validation_error', `${param} ${problem}.`, { param });

/** The error for a report that would be too large; other errors as they are. */
function refusalOf(error: unknown, { groupBy, measures }: PurchaseReportQuery): unknown {
  if (error instanceof TooManyPeriodsError) {
    return invalid(
      'group_by',
      `divides this time by ${groupBy.find(isPeriodDimension)} into ${error.count} periods, more ` +
        `than ${maxPeriods}: choose a longer one, or later created_since and earlier created_until`,
    );
  }
  if (error instanceof TooManyGroupsError) {
    const held = measures.filter((name) =>
      /^((repeat_)?customer_count|(median|p90)_value_in_cents)$/.test(name),
    );
    const remedy = held.length > 0 ? `leave out ${held.join(' and ')}` : 'choose fewer dimensions';
    return invalid(
      groupBy.length === 0 ? 'measures' : 'group_by',
      `may have ${error.count} groups, customers and values of groups, more than ${error.max}: ${remedy}, or ` +
        'choose later created_since and earlier created_until',
    );
  }
  return error;
}

/** Reads the present names of the rows' customers. */
async function customersOf(
  services: ResourceServices,
  request: ApiRequest<unknown, unknown>,
  { groupBy, rows }: PurchaseReport,
): Promise<CustomerNames> {
  const index = groupBy.indexOf('customer');
  const ids = [...new Set(rows.map(({ keys }) => String(keys[index])))];
  if (ids.length === 0) return new Map();
  const found = await queryPostgres(services, request, (connection) =>
    connection.query<CustomerName & { id: bigint }>(sql`
      select id, name, nullif(email, '') as email, nullif(phone, '') as phone
      from customers
      where organization_id = ${request.organizationId} and id = any(${ids}::bigint[])`),
  );
  return new Map(found.rows.map(({ id, ...names }) => [id, names]));
}
