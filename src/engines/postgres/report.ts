import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import {
  intervalLengths,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { labelOfDimension, type PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
} from '../../domain/purchase-report.ts';
import { type CohortSource, purchaseCohorts as cohorts } from '../report/cohorts.ts';
import { purchaseReport as report } from '../report/report.ts';
import type { ReportReader, SideQuery } from '../report/report-reader.ts';
import type { Dialect, DimensionSql, Side } from '../report/statement.ts';
import type { PeriodRange } from '../time-series.ts';
import { purchasesMatching } from './filters.ts';
import { purchaseStats, readTimeBounds } from './stats.ts';
import { localUnits, periodKey } from './time-series.ts';

const dialect: Dialect = {
  customer: 'customer_id',
  wide: (integer) => sql`(${integer})::numeric`,
  sum: (column) => sql`sum(${column})`,
  quotient: (dividend, divisor) => sql`div(${dividend}, ${divisor})`,
  inByteOrder: (text) => sql`${text} collate "C"`,
};

/** Must run within one snapshot: a report is several statements. */
export async function purchaseReport(
  connection: pg.ClientBase,
  organizationId: bigint,
  query: PurchaseReportQuery,
  asOf: bigint,
): Promise<PurchaseReport> {
  const reader: ReportReader = {
    dialect,
    totals: (filters) => purchaseStats(connection, organizationId, { filters, groupLimit: 1 }),
    bounds: (filters) => readTimeBounds(connection, organizationId, filters),
    range: (calendar, filters) => readRange(connection, organizationId, calendar, filters),
    side: (side) => sideOf(connection, organizationId, side),
    query: (statement) => readRows(connection, statement),
  };
  return report(reader, query, asOf);
}

/** Must run within one snapshot. */
export async function purchaseCohorts(
  connection: pg.ClientBase,
  organizationId: bigint,
  query: PurchaseCohortsQuery,
  asOf: bigint,
): Promise<PurchaseCohorts> {
  const reader = {
    dialect,
    totals: (filters: PurchaseFilters) =>
      purchaseStats(connection, organizationId, { filters, groupLimit: 1 }),
    source: () => cohortSource(connection, organizationId, query),
    query: (statement: Sql) => readRows(connection, statement),
  };
  return cohorts(reader, query, asOf);
}

async function cohortSource(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, interval, groupBy, timeZone }: PurchaseCohortsQuery,
): Promise<CohortSource> {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, firstPeriod: 0 };
  return {
    parts: [{ sign: 1, purchases: withFirsts(organizationId, filters), condition: sql`true` }],
    isWon: purchasesMatching(organizationId, others),
    period: await dimensionSql(connection, organizationId, interval, ofAll),
    group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
    currency: label('currency'),
  };
}

const label = (name: string): DimensionSql => ({ key: raw(name), isText: true });

async function readRows(
  connection: pg.ClientBase,
  { text, values }: Sql,
): Promise<readonly (readonly unknown[])[]> {
  const { rows } = await connection.query({ text, values, rowMode: 'array' });
  return rows;
}

async function readRange(
  connection: pg.ClientBase,
  organizationId: bigint,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
): Promise<PeriodRange | null> {
  const bounds = await readTimeBounds(connection, organizationId, filters);
  if (bounds === null) return null;
  const { first, last } = bounds;
  return { first: await periodKeyAt(calendar, first), last: await periodKeyAt(calendar, last) };
}

async function sideOf(
  connection: pg.ClientBase,
  organizationId: bigint,
  side: SideQuery,
): Promise<Side> {
  const { filters, dimensions, sums } = side;
  const read: DimensionSql[] = [];
  for (const dimension of dimensions) {
    read.push(await dimensionSql(connection, organizationId, dimension, side));
  }
  const firsts =
    sums.newCustomers || sums.returningCustomers || dimensions.includes('customer_type');
  const purchases = firsts ? withFirsts(organizationId, filters) : raw('purchases');
  const condition = purchasesMatching(organizationId, filters);
  return { dimensions: read, parts: [{ sign: 1, purchases, condition }] };
}

async function dimensionSql(
  connection: pg.ClientBase,
  organizationId: bigint,
  dimension: ReportDimension,
  { filters, timeZone, firstPeriod }: Pick<SideQuery, 'filters' | 'timeZone' | 'firstPeriod'>,
): Promise<DimensionSql> {
  const offsetsOf = async (calendar: PeriodCalendar) => {
    const bounds = await readTimeBounds(connection, organizationId, filters);
    return bounds === null ? [] : await periodOffsets(calendar, bounds.first, bounds.last);
  };
  if (isPeriodDimension(dimension)) {
    const offsets = await offsetsOf({ interval: dimension, timeZone });
    return { key: sql`(${periodKey(dimension, offsets)} - ${raw(String(firstPeriod))})` };
  }
  const local = async (unit: 'day' | 'hour') =>
    localUnits(await offsetsOf({ interval: 'day', timeZone }), intervalLengths[unit]);
  switch (dimension) {
    case 'weekday':
      return { key: sql`(${await local('day')} % 7 + 1)` };
    case 'hour_of_day':
      return { key: sql`(${await local('hour')} % 24)` };
    case 'customer_type':
      return { key: sql`(case when is_first then 0 else 1 end)` };
    case 'customer':
      return { key: raw('customer_id'), isCustomer: true };
    default:
      return label(labelOfDimension(dimension));
  }
}

/** Purchases with `is_first`: the customer's first one with the payment statuses of the filters. */
function withFirsts(organizationId: bigint, { paymentStatuses }: PurchaseFilters): Sql {
  const counted = purchasesMatching(organizationId, { paymentStatuses });
  return sql`(
    select *, row_number() over (partition by customer_id order by created_at, id) = 1 as is_first
    from purchases where ${counted}
  ) as purchases`;
}
