import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import { earliestInstant, formatInstant } from '../../domain/instant.ts';
import {
  type Interval,
  intervalLengths,
  intervalMonths,
  isOfMonths,
  type LocalCalendar,
  type PeriodCalendar,
  periodKeyAt,
  periodOffsets,
} from '../../domain/period.ts';
import {
  type LabelDimension,
  labelOfDimension,
  type PurchaseFilters,
} from '../../domain/purchase-query.ts';
import type {
  PurchaseCohorts,
  PurchaseCohortsQuery,
  PurchaseReport,
  PurchaseReportQuery,
} from '../../domain/purchase-report.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { isAnyOfTexts } from '../filter-conditions.ts';
import { type CohortPurchases, purchaseCohorts as cohorts } from '../report/cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts } from '../report/dimensions.ts';
import { purchaseReport as report } from '../report/report.ts';
import type { ReportRows, ReportSource, SideQuery } from '../report/source.ts';
import { type Dialect, type DimensionSql, readsStatement, type Side } from '../report/statement.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { purchasesMatching } from './filters.ts';

const dialect: Dialect = {
  customer: 'customer_id',
  count: raw('count(*)'),
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
  const source: ReportSource = {
    dialect,
    bounds: (filters) => readTimeBounds(connection, organizationId, filters),
    async range(calendar, filters) {
      const bounds = await readTimeBounds(connection, organizationId, filters);
      if (bounds === null) return null;
      const { first, last } = bounds;
      return { first: await periodKeyAt(calendar, first), last: await periodKeyAt(calendar, last) };
    },
    hasFewGroups: () => false,
    requireFewGroups: () => {},
    side: (side) => sideOf(connection, organizationId, side),
    currencies: async () => undefined,
    readAll: (reads) => readRows(connection, readsStatement(dialect, reads)),
    query: (statement) => readRows(connection, statement),
  };
  return report(source, query, asOf);
}

/** Must run within one snapshot. */
export async function purchaseCohorts(
  connection: pg.ClientBase,
  organizationId: bigint,
  query: PurchaseCohortsQuery,
  asOf: bigint,
): Promise<PurchaseCohorts> {
  const source = {
    dialect,
    currencies: async () => undefined,
    purchases: () => cohortPurchases(connection, organizationId, query),
    query: (statement: Sql) => readRows(connection, statement),
  };
  return cohorts(source, query, asOf);
}

async function cohortPurchases(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, interval, groupBy, timeZone, weekStart }: PurchaseCohortsQuery,
): Promise<CohortPurchases> {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { filters: { paymentStatuses }, timeZone, weekStart };
  const purchases = withFirsts(organizationId, filters);
  return {
    parts: [{ purchases, condition: sql`true`, isFirst: raw('is_first') }],
    isWon: purchasesMatching(organizationId, others),
    period: await dimensionsOf(connection, organizationId, ofAll).period(interval),
    group: groupBy === undefined ? null : label(labelOfDimension(groupBy)),
    currency: label('currency'),
  };
}

const label = (name: string): DimensionSql => ({ key: raw(name), isText: true });

async function readRows(connection: pg.ClientBase, { text, values }: Sql): Promise<ReportRows> {
  const { rows } = await connection.query({ text, values, rowMode: 'array' });
  return rows;
}

/** The first and the last `created_at` of the matching purchases; null if there are none. */
async function readTimeBounds(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
): Promise<{ readonly first: bigint; readonly last: bigint } | null> {
  const { rows } = await connection.query<{ first: bigint | null; last: bigint }>(sql`
    select ${raw(microsecondsOf('min(created_at)'))} as first,
      ${raw(microsecondsOf('max(created_at)'))} as last
    from purchases
    where ${purchasesMatching(organizationId, filters)}`);
  const { first = null, last = 0n } = rows[0] ?? {};
  return first === null ? null : { first, last };
}

async function sideOf(
  connection: pg.ClientBase,
  organizationId: bigint,
  side: SideQuery,
): Promise<Side> {
  const { filters, dimensions, only } = side;
  const source = dimensionsOf(connection, organizationId, side);
  const read: DimensionSql[] = [];
  for (const dimension of dimensions) read.push(await dimensionOf(source, dimension, side));
  const matching = purchasesMatching(organizationId, filters);
  const part = {
    purchases: needsFirsts(side) ? withFirsts(organizationId, filters) : raw('purchases'),
    condition:
      only === undefined
        ? matching
        : sql`${matching} and ${isAnyOfTexts(labelOfDimension(dimensions[0] as LabelDimension), only)}`,
    isFirst: raw('is_first'),
  };
  return { dimensions: read, parts: [part] };
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

/** The key of a purchase's period, as SQL (domain/period.ts). */
function periodKey(interval: Interval, offsets: readonly ZoneOffset[]): Sql {
  if (isOfMonths(interval)) {
    const offset = offsetExpression(offsets, isBefore);
    const local = sql`(created_at at time zone 'UTC' + ${offset} * interval '1 microsecond')`;
    const months = sql`((extract(year from ${local}) - 1) * 12 + extract(month from ${local}) - 1)`;
    return sql`(${months}::integer / ${raw(String(intervalMonths[interval]))})`;
  }
  return localUnits(offsets, intervalLengths[interval]);
}

/** The number of whole units (microseconds) of local time since 0001-01-01, as SQL. */
function localUnits(offsets: readonly ZoneOffset[], unit: bigint): Sql {
  const offset = offsetExpression(offsets, isBefore);
  return sql`((${raw(microsecondsOf('created_at'))} + ${offset} - ${raw(`(${earliestInstant})`)})
    / ${raw(String(unit))})::integer`;
}

const isBefore = (instant: bigint): Sql => sql`created_at < ${formatInstant(instant)}::timestamptz`;
