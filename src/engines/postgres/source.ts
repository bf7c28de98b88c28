import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import { type Interval, intervalLengths, intervalMonths, isOfMonths } from '../../domain/period.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import type { ZoneOffset } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { plainSource } from '../report/plain-source.ts';
import type { ReportRows, TimeBounds } from '../report/source.ts';
import type { Dialect } from '../report/statement.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { withCoupons } from './coupons.ts';
import { isBefore, localUnits, purchasesMatching } from './filters.ts';

const dialect: Dialect = {
  customer: 'customer_id',
  count: raw('count(*)'),
  wide: (integer) => sql`(${integer})::numeric`,
  sum: (column) => sql`sum(${column})`,
  quantile: (column, tenths) =>
    sql`percentile_disc(${raw(`0.${tenths}`)}) within group (order by ${column})`,
  quotient: (dividend, divisor) => sql`div(${dividend}, ${divisor})`,
  inByteOrder: (text) => sql`${text} collate "C"`,
};

/** Statements must run within one snapshot. */
export const postgresSource = (connection: pg.ClientBase, organizationId: bigint) => {
  const timeBounds = (filters: PurchaseFilters) =>
    readTimeBounds(connection, organizationId, filters);
  return plainSource({
    dialect,
    query: (statement) => readRows(connection, statement),
    timeBounds,
    wideBounds: timeBounds,
    periodKey,
    localUnits: (offsets, unit) => localUnits(offsets, intervalLengths[unit]),
    matching: (filters) => purchasesMatching(organizationId, filters),
    parts: ({ filters, firsts }) => [
      {
        purchases: firsts ? withFirsts(organizationId, filters) : raw('purchases'),
        condition: purchasesMatching(organizationId, filters),
        isFirst: raw('is_first'),
      },
    ],
    withCoupons,
    currencies: () => undefined,
  });
};

async function readRows(connection: pg.ClientBase, { text, values }: Sql): Promise<ReportRows> {
  const { rows } = await connection.query({ text, values, rowMode: 'array' });
  return rows;
}

/** The first and the last `created_at` of the matching purchases; null if there are none. */
async function readTimeBounds(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
): Promise<TimeBounds | null> {
  const { rows } = await connection.query<{ first: bigint | null; last: bigint }>(sql`
    select ${raw(microsecondsOf('min(created_at)'))} as first,
      ${raw(microsecondsOf('max(created_at)'))} as last
    from purchases
    where ${purchasesMatching(organizationId, filters)}`);
  const { first = null, last = 0n } = rows[0] ?? {};
  return first === null ? null : { first, last };
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
