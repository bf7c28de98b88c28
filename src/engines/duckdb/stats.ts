import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import {
  emptyStats,
  type PurchaseGroup,
  type PurchaseStats,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import type {
  PurchaseFilters,
  PurchaseStatsQuery,
  StatsDimension,
} from '../../domain/purchase-query.ts';
import { queryRows } from './connection.ts';
import { purchasesMatching } from './filters.ts';
import type { Generation } from './labels.ts';
import { labelKey, labelTable, noLabel } from './layout.ts';
import { type DayGrouping, dayGrouping } from './local-day.ts';

export async function purchaseStats(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const matching = await purchasesMatching(connection, generation.catalog, filters);
  if (matching === null) return emptyStats;
  const isEverything = Object.values(filters).every((value) => value === undefined);
  const { catalog } = generation;
  const day = () => dayGrouping(generation.extent, filters, timeZone);
  const ranking =
    groupBy === undefined
      ? null
      : await readRanking(connection, catalog, matching, groupBy, day, groupLimit + 1);
  const totals =
    (isEverything ? generation.totals : null) ??
    (await readTotals(connection, generation, filters, matching, ranking));
  // A generation never changes: its own totals are those of any later question.
  if (isEverything) generation.totals = totals;
  const groups = ranking?.groups ?? [];
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

type Sums = { readonly purchaseCount: bigint; readonly revenueInCents: bigint };

/** What the ranking has summed up already is not read again. */
async function readTotals(
  connection: DuckDBConnection,
  { catalog, extent }: Generation,
  { customerId }: PurchaseFilters,
  matching: Sql,
  ranking: Sums | null,
): Promise<PurchaseTotals> {
  const { purchaseCount, revenueInCents } =
    ranking ?? (await readSums(connection, catalog, matching));
  if (purchaseCount === 0n) return emptyStats;
  const customerCount =
    customerId === undefined ? await countCustomers(connection, catalog, matching) : 1n;
  const [currency, mixedCurrencies] =
    extent.currency === null
      ? await readCurrency(connection, catalog, matching)
      : [extent.currency, false];
  return { purchaseCount, customerCount, revenueInCents, currency, mixedCurrencies };
}

async function readSums(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
): Promise<Sums> {
  const [row] = await queryRows(
    connection,
    sql`
      select count(*), coalesce(sum(purchase_value_in_cents), 0)
      from ${raw(catalog)}.purchase where ${matching}`,
  );
  const [purchaseCount, revenueInCents] = row as [bigint, bigint];
  return { purchaseCount, revenueInCents };
}

/**
 * By a grouping of their own: `count(distinct …)` beside other aggregates is hashed, a
 * grouping of dense keys is not.
 */
async function countCustomers(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
): Promise<bigint> {
  const [row] = await queryRows(
    connection,
    sql`
      select count(*)
      from (select customer_key from ${raw(catalog)}.purchase where ${matching} group by 1)`,
  );
  return row?.[0] as bigint;
}

/** The one currency, and whether there are several. */
async function readCurrency(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
): Promise<[string | null, boolean]> {
  const [row] = await queryRows(
    connection,
    sql`
      select value, coalesce(least_key <> greatest_key, false)
      from (
        select min(currency_key) filter (where currency_key <> ${raw(String(noLabel))}) as least_key,
          max(currency_key) as greatest_key
        from ${raw(catalog)}.purchase where ${matching}) as keys
      left join ${raw(catalog)}.label_currency on key = least_key`,
  );
  const [currency, isMixed] = row as unknown as [string | null, boolean];
  return [isMixed ? null : currency, isMixed];
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

/** The groups in their order, and the sums over all of them. */
async function readRanking(
  connection: DuckDBConnection,
  catalog: string,
  matching: Sql,
  groupBy: StatsDimension,
  day: () => DayGrouping,
  limit: number,
): Promise<Sums & { readonly groups: readonly PurchaseGroup[] }> {
  const ranking = (key: Sql) => sql`
    select ${key} as key, count(*) as purchase_count, sum(purchase_value_in_cents) as revenue
    from ${raw(catalog)}.purchase
    where ${matching}
    group by 1`;
  const groupedByDay = ({ key, date }: DayGrouping) => sql`
    select strftime(${date}, '%Y-%m-%d') as name, purchase_count, revenue
    from (${ranking(key)})`;
  const named =
    groupBy === 'day'
      ? groupedByDay(day())
      : sql`
        select label.value as name, purchase_count, revenue
        from (${ranking(raw(labelKey(labels[groupBy])))}) as ranking
        left join ${raw(catalog)}.${raw(labelTable(labels[groupBy]))} as label
          on label.key = ranking.key`;
  const rows = await queryRows(
    connection,
    sql`
      select *, sum(purchase_count) over ()::bigint, sum(revenue) over ()
      from (${named}) as ranking
      order by revenue desc, purchase_count desc, name asc nulls last
      limit ${raw(String(limit))}`,
  );
  const [, , , purchaseCount = 0n, revenueInCents = 0n] = (rows[0] ?? []) as bigint[];
  return {
    purchaseCount,
    revenueInCents,
    groups: rows.map(([key, count, revenue]) => ({
      key: key as string | null,
      purchaseCount: count as bigint,
      revenueInCents: revenue as bigint,
    })),
  };
}
