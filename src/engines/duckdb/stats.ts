import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import type { PurchaseGroup, PurchaseStats } from '../../domain/purchase-engine.ts';
import type { PurchaseStatsQuery, StatsDimension } from '../../domain/purchase-query.ts';
import { queryRows } from './connection.ts';
import { purchasesMatching } from './filters.ts';
import type { Generation } from './labels.ts';
import { labelKey, labelTable } from './layout.ts';
import { type DayGrouping, dayGrouping } from './local-day.ts';

const nothing: PurchaseStats = {
  purchaseCount: 0n,
  customerCount: 0n,
  revenueInCents: 0n,
  currency: null,
  mixedCurrencies: false,
  groups: [],
  groupsTruncated: false,
};

export async function purchaseStats(
  connection: DuckDBConnection,
  { catalog }: Generation,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const matching = await purchasesMatching(connection, catalog, filters);
  if (matching === null) return nothing;
  const totals = await readTotals(connection, catalog, matching);
  if (totals.purchaseCount === 0n) return nothing;
  const day = () => dayGrouping(connection, catalog, filters, timeZone);
  const groups =
    groupBy === undefined
      ? []
      : await readGroups(connection, catalog, matching, groupBy, day, groupLimit + 1);
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

async function readTotals(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
): Promise<Omit<PurchaseStats, 'groups' | 'groupsTruncated'>> {
  // The customers are counted by a grouping of their own: `count(distinct …)`
  // beside other aggregates is hashed, a grouping of dense keys is not.
  const [row] = await queryRows(
    connection,
    sql`
      select purchase_count, customer_count, revenue, currency_count, label_currency.value
      from (
        select count(*) as purchase_count,
          coalesce(sum(purchase_value_in_cents), 0) as revenue,
          case when min(currency_key) is null then 0
               when min(currency_key) = max(currency_key) then 1
               else 2 end as currency_count,
          min(currency_key) as currency_key
        from ${raw(catalog)}.purchase
        where ${matching}
      ) as totals
      cross join (
        select count(*) as customer_count
        from (select customer_key from ${raw(catalog)}.purchase where ${matching} group by 1)
      ) as customers
      left join ${raw(catalog)}.label_currency on label_currency.key = totals.currency_key`,
  );
  const [purchaseCount, customerCount, revenueInCents, currencyCount, currency] = row as [
    bigint,
    bigint,
    bigint,
    number,
    string | null,
  ];
  return {
    purchaseCount,
    customerCount,
    revenueInCents,
    currency: currencyCount === 1 ? currency : null,
    mixedCurrencies: currencyCount > 1,
  };
}

const labels: Readonly<Record<Exclude<StatsDimension, 'day'>, PurchaseLabel>> = {
  status: 'payment_status',
  platform: 'platform',
  currency: 'currency',
  utm_source: 'utm_source',
  utm_medium: 'utm_medium',
  utm_campaign: 'utm_campaign',
  utm_content: 'utm_content',
  utm_term: 'utm_term',
};

async function readGroups(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
  groupBy: StatsDimension,
  day: () => Promise<DayGrouping>,
  limit: number,
): Promise<PurchaseGroup[]> {
  const ranking = (key: Sql) => sql`
    select ${key} as key, count(*) as purchase_count, sum(purchase_value_in_cents) as revenue
    from ${raw(catalog)}.purchase
    where ${matching}
    group by 1`;
  const named =
    groupBy === 'day'
      ? await day().then(
          ({ key, date }) => sql`
        select strftime(${date}, '%Y-%m-%d') as name, purchase_count, revenue
        from (${ranking(key)})`,
        )
      : sql`
        select label.value as name, purchase_count, revenue
        from (${ranking(raw(labelKey(labels[groupBy])))}) as ranking
        left join ${raw(catalog)}.${raw(labelTable(labels[groupBy]))} as label
          on label.key = ranking.key`;
  const rows = await queryRows(
    connection,
    sql`
      ${named}
      order by revenue desc, purchase_count desc, name asc nulls last
      limit ${raw(String(limit))}`,
  );
  return rows.map(([key, purchaseCount, revenueInCents]) => ({
    key: key as string | null,
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
  }));
}
