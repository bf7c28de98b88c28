import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import {
  emptyStats,
  type PurchaseGroup,
  type PurchaseStats,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import {
  isUnfiltered,
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
  type StatsDimension,
} from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { firstKey, labelDictionary, labelKey, labelTable } from '../../purchase-store/layout.ts';
import { purchasesMatching } from './filters.ts';
import type { Generation } from './generation.ts';
import type { LabelCache } from './labels.ts';
import { type DayGrouping, dayGrouping, loadDayGrouping } from './local-day.ts';

export async function purchaseStats(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
): Promise<PurchaseStats> {
  const matching = await purchasesMatching(connection, generation.catalog, filters);
  if (matching === null) return emptyStats;
  const coversAll = isUnfiltered(filters);
  const { catalog, summary } = generation;
  if (groupBy === 'day') await loadDayGrouping(summary, filters, timeZone);
  const day = () => dayGrouping(summary, filters, timeZone);
  const ranking =
    groupBy === undefined
      ? null
      : await readRanking(connection, catalog, matching, groupBy, day, groupLimit + 1);
  const totals =
    (coversAll ? generation.totals : null) ??
    (await readTotals(connection, generation, filters, matching, ranking));
  // A generation never changes, so later queries reuse its totals.
  if (coversAll) generation.totals = totals;
  const groups = ranking?.groups ?? [];
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

type Sums = { readonly purchaseCount: bigint; readonly revenueInCents: bigint };

/**
 * One statement, because each statement costs a millisecond before it reads anything. Known
 * values are not read: the sums of the ranking, a single currency, a filter by one customer.
 */
async function readTotals(
  connection: DuckDBConnection,
  { catalog, summary, labels }: Generation,
  { customerId }: PurchaseFilters,
  matching: Sql,
  ranking: Sums | null,
): Promise<PurchaseTotals> {
  if (ranking?.purchaseCount === 0n) return emptyStats;
  const from = sql`from ${raw(catalog)}.purchase where ${matching}`;
  const aggregates = [
    ...(ranking === null ? [sql`count(*), coalesce(sum(purchase_value_in_cents), 0)`] : []),
    ...(summary.currency === null ? [currencyKeys] : []),
  ];
  const parts = [
    ...(aggregates.length > 0 ? [sql`(select ${join(aggregates, ', ')} ${from}) as summed`] : []),
    // DuckDB hashes `count(distinct …)` beside other aggregates, but groups dense keys by
    // direct addressing.
    ...(customerId === undefined
      ? [sql`(select count(*) from (select customer_key ${from} group by 1)) as customers`]
      : []),
  ];
  const [row = []] =
    parts.length === 0 ? [] : await queryRows(connection, sql`select * from ${join(parts, ', ')}`);
  const read = row.values();
  const next = () => read.next().value as bigint;
  const { purchaseCount, revenueInCents } = ranking ?? {
    purchaseCount: next(),
    revenueInCents: next(),
  };
  if (purchaseCount === 0n) return emptyStats;
  const currencies =
    summary.currency === null
      ? await readCurrencies(connection, labels, Number(next()), Number(next()))
      : { currency: summary.currency, mixedCurrencies: false };
  const customerCount = customerId === undefined ? next() : 1n;
  return { purchaseCount, customerCount, revenueInCents, ...currencies };
}

/**
 * The least and the greatest key, minus the first key. The mask makes `noLabel` the greatest
 * number for `min`. A filter or NULL instead took half as long again.
 */
const firstCurrency = firstKey(labelDictionary('currency'));
const currencyKeys = raw(
  `min((currency_key - ${firstCurrency}) & ${2 ** 31 - 1}), max(currency_key) - ${firstCurrency}`,
);

async function readCurrencies(
  connection: DuckDBConnection,
  labels: LabelCache,
  least: number,
  greatest: number,
): Promise<Pick<PurchaseTotals, 'currency' | 'mixedCurrencies'>> {
  if (least !== greatest) return { currency: null, mixedCurrencies: least < greatest };
  const key = least + firstCurrency;
  const nameOf = await labels.lookUp(connection, new Map([['currency', new Set([key])]]));
  return { currency: nameOf('currency', key), mixedCurrencies: false };
}

/** The first groups of the ranking, and the sums over all groups. */
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
  const ofDays = ({ key, day }: DayGrouping) =>
    day === null
      ? ranking(key)
      : sql`
        select ${day} as key, sum(purchase_count)::bigint as purchase_count, sum(revenue) as revenue
        from (${ranking(key)})
        group by 1`;
  const groupedByDay = (grouping: DayGrouping) => sql`
    select strftime(${grouping.date}, '%Y-%m-%d') as name, purchase_count, revenue
    from (${ofDays(grouping)})`;
  const groupedByLabel = (label: PurchaseLabel) => sql`
    select label.value as name, purchase_count, revenue
    from (${ranking(raw(labelKey(label)))}) as ranking
    left join ${raw(catalog)}.${raw(labelTable(label))} as label on label.key = ranking.key`;
  const named = groupBy === 'day' ? groupedByDay(day()) : groupedByLabel(labelOfDimension(groupBy));
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
