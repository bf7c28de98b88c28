import { z } from 'zod';
import { localDays } from '../../domain/compared-period.ts';
import { formatInstant } from '../../domain/instant.ts';
import { encodeId } from '../../domain/public-id.ts';
import {
  type DimensionValue,
  isPeriodDimension,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportPeriod,
  type ReportRow,
  reportDimensions,
  reportMeasures,
} from '../../domain/purchase-report.ts';
import type { ResponseTable, TableColumn } from '../../http/formats/table.ts';
import { dateTime, integer, named, publicId, sum } from '../../http/response/wire.ts';
import { amountsSchema, currencyColumns, totalsSchema } from './purchase-totals.ts';

const { currency, mixed_currencies } = totalsSchema;

const quantile = (share: string) =>
  integer().meta({
    description: `The smallest value that at least ${share} of these purchases do not exceed; 0 without purchases.`,
  });

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
  repeat_customer_count: sum().meta({
    description: 'Distinct customers that have at least two purchases among these.',
  }),
  median_value_in_cents: quantile('half'),
  p90_value_in_cents: quantile('nine tenths'),
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

/** With `expand=customer`; null if the customer has none, or was deleted meanwhile. */
const customerFields = {
  customer_name: z.string().nullable().optional(),
  customer_email: z.string().nullable().optional(),
  customer_phone: z.string().nullable().optional(),
};

const periodSchema = z.object({
  since: dateTime().nullable(),
  until: dateTime().nullable(),
  days: z
    .custom<number>()
    .meta({ type: 'integer', format: 'int32', minimum: 0 })
    .nullable()
    .meta({ description: 'The local time between the bounds in days, rounded up.' }),
});

export const reportSchema = named(
  'PurchaseReport',
  z.object({
    object: z.literal('purchase_report'),
    timezone: z.string(),
    measures: z.array(z.enum(reportMeasures)),
    group_by: z.array(z.enum(reportDimensions)),
    expand: z.literal('customer').optional(),
    period: periodSchema,
    compared_period: periodSchema.nullable(),
    currency,
    mixed_currencies,
    totals: measures.extend({ compared: measures.optional() }),
    rows: z.array(
      z.object({
        ...optionalFields(reportDimensions, dimensionSchema),
        ...customerFields,
        ...measures.shape,
        compared: measures.optional(),
      }),
    ),
    rows_truncated: z
      .boolean()
      .meta({ description: 'Whether there are more rows, which `totals` cover too.' }),
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

export type ReportResponse = z.output<typeof reportSchema>;

/** A row for each row of the report, or one with the totals; columns `compared_…` of the compared period. */
export const reportTable: ResponseTable<ReportResponse> = {
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
    ...report.group_by.flatMap((name) => [
      dimensionColumn(name),
      ...(name === 'customer' && report.expand !== undefined ? customerColumns : []),
    ]),
    ...report.measures.map(column),
    ...(compared ? report.measures.map((name) => column(`compared_${name}`)) : []),
    ...currencyColumns.filter(
      ({ name }) => name !== 'currency' || !report.group_by.includes('currency'),
    ),
  ];
}

const customerColumns = Object.keys(customerFields).map(
  (name): TableColumn => ({ name, kind: 'text', absent: 'null' }),
);

function dimensionColumn(name: ReportDimension): TableColumn {
  if (isPeriodDimension(name)) {
    return { name, kind: 'instant', isWholeSeconds: true, absent: 'never' };
  }
  if (name === 'weekday' || name === 'hour_of_day')
    return { name, kind: 'integer', absent: 'never' };
  return { name, kind: name === 'customer' ? 'text' : 'label', absent: 'null' };
}

/** Names of customers by id, as far as they are known. */
export type CustomerNames = ReadonlyMap<bigint, CustomerName>;
export type CustomerName = Readonly<Record<'name' | 'email' | 'phone', string | null>>;

type ShownRow = Record<string, unknown>;

/** With `customers`, rows of customers have names. */
export async function reportResponse(
  report: PurchaseReport,
  { measures, timeZone }: PurchaseReportQuery,
  customers: CustomerNames | undefined,
): Promise<ReportResponse> {
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
      const value = read.keys[index] ?? null;
      row[name] = dimensionOf(name, value, instants);
      if (name === 'customer' && customers !== undefined) addNames(row, customers, value as bigint);
    }
    rows.push(amountsIn(row, read));
  }
  return {
    object: 'purchase_report',
    timezone: timeZone ?? 'UTC',
    measures: [...measures],
    group_by: [...report.groupBy],
    ...(customers === undefined ? {} : { expand: 'customer' as const }),
    period: await periodOf(report.period, timeZone),
    compared_period: report.comparedPeriod && (await periodOf(report.comparedPeriod, timeZone)),
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

function addNames(row: ShownRow, customers: CustomerNames, id: bigint): void {
  const { name = null, email = null, phone = null } = customers.get(id) ?? {};
  row.customer_name = name;
  row.customer_email = email;
  row.customer_phone = phone;
}

async function periodOf({ since, until }: ReportPeriod, timeZone: string | undefined) {
  const days =
    since === null || until === null ? null : await localDays({ since, until }, timeZone);
  return {
    since: since === null ? null : formatInstant(since),
    until: until === null ? null : formatInstant(until),
    days,
  };
}
