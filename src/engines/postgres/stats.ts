import type pg from 'pg';
import sql, { raw, type Sql } from 'sql-template-tag';
import { formatInstant } from '../../domain/instant.ts';
import type { PurchaseGroup, PurchaseStats } from '../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
} from '../../domain/purchase-query.ts';
import { zoneOffsets } from '../../domain/time-zone.ts';
import { microsecondsOf } from '../../postgres/lists/instants.ts';
import { offsetExpression } from '../zone-offsets.ts';
import { purchasesMatching } from './filters.ts';

/** Must run within one snapshot: totals and groups are two statements. */
export async function purchaseStats(
  connection: pg.ClientBase,
  organizationId: bigint,
  query: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const { groupLimit } = query;
  const totals = await readTotals(connection, organizationId, query.filters);
  const groups = await readGroups(connection, organizationId, query);
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

async function readTotals(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
): Promise<Omit<PurchaseStats, 'groups' | 'groupsTruncated'>> {
  // Sums are numeric. As text they never pass through a double.
  const statement = sql`
    select
      count(*) as "purchaseCount",
      count(distinct customer_id) as "customerCount",
      coalesce(sum(purchase_value_in_cents), 0)::text as "revenueInCents",
      case when count(distinct currency) = 1 then min(currency collate "C") end as currency,
      count(distinct currency) > 1 as "mixedCurrencies"
    from purchases
    where ${purchasesMatching(organizationId, filters)}`;
  const { rows } = await connection.query(statement);
  const totals = rows[0];
  return { ...totals, revenueInCents: BigInt(totals.revenueInCents) };
}

/** An SQL expression for a purchase's day as text, in UTC or in a time zone. */
async function localDay(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
  timeZone: string | undefined,
): Promise<Sql> {
  const utc = sql`created_at at time zone 'UTC'`;
  if (timeZone === undefined) return sql`to_char(${utc}, 'YYYY-MM-DD')`;
  const bounds = await readTimeBounds(connection, organizationId, filters);
  const offset = offsetExpression(
    bounds === null ? [] : await zoneOffsets(timeZone, bounds.first, bounds.last),
    (instant) => sql`created_at < ${formatInstant(instant)}::timestamptz`,
  );
  return sql`to_char(${utc} + ${offset} * interval '1 microsecond', 'YYYY-MM-DD')`;
}

/** The first and the last `created_at` of the matching purchases; null if there are none. */
export async function readTimeBounds(
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

/** One group more than the limit, if there are as many. */
async function readGroups(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
): Promise<PurchaseGroup[]> {
  if (groupBy === undefined) return [];
  const key =
    groupBy === 'day'
      ? await localDay(connection, organizationId, filters, timeZone)
      : raw(labelOfDimension(groupBy));
  const statement = sql`
    select key, "purchaseCount", revenue::text as "revenueInCents"
    from (
      select ${key} as key,
        count(*) as "purchaseCount",
        sum(purchase_value_in_cents) as revenue
      from purchases
      where ${purchasesMatching(organizationId, filters)}
      group by 1
    ) as ranking
    order by ranking.revenue desc, "purchaseCount" desc, key collate "C" asc nulls last
    limit ${groupLimit + 1}`;
  const { rows } = await connection.query(statement);
  return rows.map((group) => ({ ...group, revenueInCents: BigInt(group.revenueInCents) }));
}
