import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import {
  intervalLengths,
  type LocalCalendar,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import { labelOfDimension, type PurchaseFilters } from '../../domain/purchase-query.ts';
import type {
  PurchaseCohorts,
  PurchaseCohortsQuery,
  PurchaseReport,
  PurchaseReportQuery,
} from '../../domain/purchase-report.ts';
import { type CohortSource, purchaseCohorts as cohorts } from '../report/cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts } from '../report/dimensions.ts';
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
  { filters, interval, groupBy, timeZone, weekStart }: PurchaseCohortsQuery,
): Promise<CohortSource> {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, weekStart };
  return {
    parts: [{ sign: 1, purchases: withFirsts(organizationId, filters), condition: sql`true` }],
    isWon: purchasesMatching(organizationId, others),
    period: await dimensionsOf(connection, organizationId, ofAll).period(interval),
    group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
    currency: label('currency'),
    hasCurrency: raw('currency is not null'),
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
  const { filters, dimensions } = side;
  const source = dimensionsOf(connection, organizationId, side);
  const read: DimensionSql[] = [];
  for (const dimension of dimensions) read.push(await dimensionOf(source, dimension, side));
  const purchases = needsFirsts(side) ? withFirsts(organizationId, filters) : raw('purchases');
  const condition = purchasesMatching(organizationId, filters);
  return { dimensions: read, parts: [{ sign: 1, purchases, condition }] };
}

function dimensionsOf(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, timeZone, weekStart }: LocalCalendar & Pick<SideQuery, 'filters'>,
): DimensionSource {
  const offsetsOf = async (calendar: PeriodCalendar) => {
    const bounds = await readTimeBounds(connection, organizationId, filters);
    return bounds === null ? [] : await periodOffsets(calendar, bounds.first, bounds.last);
  };
  return {
    period: async (interval) => ({
      key: periodKey(interval, await offsetsOf({ interval, timeZone, weekStart })),
    }),
    localUnits: async (unit) =>
      localUnits(await offsetsOf({ interval: 'day', timeZone }), intervalLengths[unit]),
    label,
    quotient: dialect.quotient,
    customer: { key: raw('customer_id') },
  };
}

/** Purchases with `is_first`: the customer's first one with the payment statuses of the filters. */
function withFirsts(organizationId: bigint, { paymentStatuses }: PurchaseFilters): Sql {
  const counted = purchasesMatching(organizationId, { paymentStatuses });
  return sql`(
    select *, row_number() over (partition by customer_id order by created_at, id) = 1 as is_first
    from purchases where ${counted}
  ) as purchases`;
}
