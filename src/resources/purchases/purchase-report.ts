import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { TooManyPeriodsError } from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import { encodeId } from '../../domain/public-id.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type DimensionValue,
  defaultMeasures,
  isPeriodDimension,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportPeriod,
  type ReportRow,
  reportDimensions,
  reportMeasures,
  stepMonths,
  TooManyGroupsError,
} from '../../domain/purchase-report.ts';
import type { ResponseTable, TableColumn } from '../../http/formats/table.ts';
import { ApiError } from '../../http/response/errors.ts';
import { dateTime, integer, named, publicId, sum } from '../../http/response/wire.ts';
import { type ResourceRoutes, route } from '../../http/route.ts';
import { readFilters } from './purchase-filters.ts';
import { purchaseReportParameters } from './purchase-parameters.ts';
import { amountsSchema, currencyColumns, totalsSchema } from './purchase-totals.ts';

const { currency, mixed_currencies } = totalsSchema;

const measureSchemas: Readonly<Record<ReportMeasure, z.ZodType<bigint>>> = {
  purchase_count: amountsSchema.purchase_count,
  revenue_in_cents: amountsSchema.revenue_in_cents,
  average_ticket_in_cents: amountsSchema.average_ticket_in_cents,
  customer_count: amountsSchema.customer_count,
  new_customer_count: sum().meta({
    description:
      'Customers whose first purchase with these payment statuses is among these purchases.',
  }),
  returning_customer_count: sum().meta({
    description: 'Distinct customers that have a later purchase among these.',
  }),
  subtotal_amount_in_cents: sum(),
  total_amount_in_cents: sum(),
  discount_in_cents: sum(),
  shipping_cost_customer_in_cents: sum(),
};
const measures = z.object(optionalFields(reportMeasures, (name) => measureSchemas[name]));

const dimensionSchema = (name: ReportDimension): z.ZodType => {
  if (isPeriodDimension(name)) {
    return dateTime().meta({ description: `The first instant of the ${name}.` });
  }
  if (name === 'customer') return publicId('customer');
  if (name === 'customer_type') return z.enum(['new', 'returning']);
  if (name === 'weekday' || name === 'hour_of_day') return integer();
  return z.string().nullable();
};

const periodSchema = z.object({
  since: dateTime().nullable(),
  until: dateTime().nullable(),
});

const reportSchema = named(
  'PurchaseReport',
  z.object({
    object: z.literal('purchase_report'),
    timezone: z.string(),
    measures: z.array(z.enum(reportMeasures)),
    group_by: z.array(z.enum(reportDimensions)),
    period: periodSchema,
    compared_period: periodSchema.nullable(),
    currency,
    mixed_currencies,
    totals: measures.extend({ compared: measures.optional() }),
    rows: z.array(
      z.object({
        ...optionalFields(reportDimensions, dimensionSchema),
        ...measures.shape,
        compared: measures.optional(),
      }),
    ),
    rows_truncated: z.boolean(),
  }),
);

function optionalFields<Name extends string>(
  names: readonly Name[],
  schemaOf: (name: Name) => z.ZodType,
): Record<Name, z.ZodOptional<z.ZodType>> {
  return Object.fromEntries(names.map((name) => [name, schemaOf(name).optional()])) as Record<
    Name,
    z.ZodOptional<z.ZodType>
  >;
}

type ReportResponse = z.output<typeof reportSchema>;

/** A row for each row of the report, or one with the totals; columns `compared_…` of the compared period. */
const reportTable: ResponseTable<ReportResponse> = {
  columns: [],
  read: (report) => {
    const rows: readonly Record<string, unknown>[] =
      report.group_by.length === 0 ? [report.totals] : report.rows;
    const compared = report.compared_period !== null;
    return {
      columns: columnsOf(report, compared),
      rows: rows.map((row) => ({
        ...row,
        ...Object.fromEntries(
          Object.entries((row.compared as object | undefined) ?? {}).map(([name, value]) => [
            `compared_${name}`,
            value,
          ]),
        ),
        // The dimension `currency` is the currency of a row.
        ...(report.group_by.includes('currency') ? {} : { currency: report.currency }),
        mixed_currencies: report.mixed_currencies,
      })),
      hasMore: report.rows_truncated,
    };
  },
};

function columnsOf(report: ReportResponse, compared: boolean): TableColumn[] {
  const column = (name: string): TableColumn => ({ name, kind: 'integer', absent: 'never' });
  return [
    ...report.group_by.map(dimensionColumn),
    ...report.measures.map(column),
    ...(compared ? report.measures.map((name) => column(`compared_${name}`)) : []),
    ...currencyColumns.filter(
      ({ name }) => name !== 'currency' || !report.group_by.includes('currency'),
    ),
  ];
}

function dimensionColumn(name: ReportDimension): TableColumn {
  if (isPeriodDimension(name)) return { name, kind: 'instant', absent: 'never' };
  if (name === 'weekday' || name === 'hour_of_day')
    return { name, kind: 'integer', absent: 'never' };
  return { name, kind: name === 'customer' ? 'text' : 'label', absent: 'null' };
}

/** An addition to the specification: sums of matching purchases by up to three dimensions. */
export const purchaseReport: ResourceRoutes = () => [
  route({
    url: '/purchases/report',
    summary: 'Several measures by up to three dimensions, compared with an earlier period',
    description:
      'For sales: revenue, orders, new and returning customers, by campaign, customer or month. ' +
      'Customers of rows do not add up; `totals` has their number. If `rows_truncated` is true, ' +
      '`totals` cover more rows. If `mixed_currencies` is true, amounts have no unit.',
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
      return { ...shown, changesAt, result: responseOf(result, reportQuery, query.timezone) };
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
    const remedy = measures.includes('customer_count')
      ? 'leave out customer_count'
      : 'choose fewer dimensions';
    return invalid(
      'group_by',
      `may have ${error.count} groups and customers of groups, more than ${error.max}: ${remedy}, or ` +
        'choose later created_since and earlier created_until',
    );
  }
  return error;
}

type ShownRow = Record<string, unknown>;

function responseOf(
  report: PurchaseReport,
  { measures }: PurchaseReportQuery,
  timezone: string,
): ReportResponse {
  const amountsIn = (row: ShownRow, { values, compared }: Omit<ReportRow, 'keys'>): ShownRow => {
    for (const [index, name] of measures.entries()) row[name] = values[index];
    if (compared !== null) row.compared = amountsIn({}, { values: compared, compared: null });
    return row;
  };
  const instants = new Map<bigint, string>();
  const rows: ShownRow[] = [];
  for (const read of report.rows) {
    const row: ShownRow = {};
    for (const [index, name] of report.groupBy.entries()) {
      row[name] = dimensionOf(name, read.keys[index] ?? null, instants);
    }
    rows.push(amountsIn(row, read));
  }
  return {
    object: 'purchase_report',
    timezone,
    measures: [...measures],
    group_by: [...report.groupBy],
    period: periodOf(report.period),
    compared_period: report.comparedPeriod && periodOf(report.comparedPeriod),
    currency: report.currency,
    mixed_currencies: report.mixedCurrencies,
    totals: amountsIn({}, report.totals),
    rows,
    rows_truncated: report.rowsTruncated,
  };
}

/** `instants` has the texts of instants that earlier rows show. */
function dimensionOf(
  name: ReportDimension,
  value: DimensionValue,
  instants: Map<bigint, string>,
): unknown {
  if (value === null) return null;
  if (isPeriodDimension(name)) {
    const instant = value as bigint;
    const text = instants.get(instant) ?? formatInstant(instant);
    instants.set(instant, text);
    return text;
  }
  if (name === 'customer') return encodeId('customer', value as bigint);
  return typeof value === 'number' ? BigInt(value) : value;
}

const periodOf = ({ since, until }: ReportPeriod) => ({
  since: since === null ? null : formatInstant(since),
  until: until === null ? null : formatInstant(until),
});
