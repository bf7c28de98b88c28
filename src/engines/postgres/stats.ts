import type pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import type { PurchaseGroup, PurchaseStats } from '../../domain/purchase-engine.ts';
import type {
  PurchaseFilters,
  PurchaseStatsQuery,
  StatsDimension,
} from '../../domain/purchase-query.ts';
import { purchasesMatching } from './filters.ts';

/** Must run within one snapshot: totals and groups are two statements. */
export async function purchaseStats(
  connection: pg.ClientBase,
  organizationId: bigint,
  { filters, groupBy, groupLimit }: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const totals = await readTotals(connection, organizationId, filters);
  const groups =
    groupBy === undefined
      ? []
      : await readGroups(connection, organizationId, filters, groupBy, groupLimit + 1);
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
  // Sums are numeric and come as text: no double in between.
  const statement = sql`
    select
      count(*) as purchase_count,
      count(distinct customer_id) as customer_count,
      coalesce(sum(purchase_value_in_cents), 0)::text as revenue,
      count(distinct currency) as currency_count,
      min(currency collate "C") as currency
    from purchases
    where ${purchasesMatching(organizationId, filters)}`;
  const { rows } = await connection.query(statement);
  const row = rows[0];
  return {
    purchaseCount: row.purchase_count,
    customerCount: row.customer_count,
    revenueInCents: BigInt(row.revenue),
    currency: row.currency_count === 1n ? row.currency : null,
    mixedCurrencies: row.currency_count > 1n,
  };
}

const keys: Readonly<Record<StatsDimension, string>> = {
  status: 'payment_status',
  platform: 'platform',
  currency: 'currency',
  day: `to_char(created_at at time zone 'UTC', 'YYYY-MM-DD')`,
  utm_source: 'utm_source',
  utm_medium: 'utm_medium',
  utm_campaign: 'utm_campaign',
  utm_content: 'utm_content',
  utm_term: 'utm_term',
};

async function readGroups(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
  groupBy: StatsDimension,
  limit: number,
): Promise<PurchaseGroup[]> {
  const statement = sql`
    select key, purchase_count, revenue::text as revenue
    from (
      select ${raw(keys[groupBy])} as key,
        count(*) as purchase_count,
        sum(purchase_value_in_cents) as revenue
      from purchases
      where ${purchasesMatching(organizationId, filters)}
      group by 1
    ) as ranking
    order by ranking.revenue desc, purchase_count desc, key collate "C" asc nulls last
    limit ${limit}`;
  const { rows } = await connection.query(statement);
  return rows.map((row) => ({
    key: row.key,
    purchaseCount: row.purchase_count,
    revenueInCents: BigInt(row.revenue),
  }));
}
