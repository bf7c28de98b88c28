import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../domain/purchase.ts';
import {
  emptyStats,
  type PurchaseGroup,
  type PurchaseStats,
  type PurchaseSums,
  type PurchaseTotals,
} from '../../domain/purchase-engine.ts';
import {
  isUnfiltered,
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
} from '../../domain/purchase-query.ts';
import { queryRows } from '../../duckdb/connection.ts';
import { labelDictionary, labelKey, noLabel } from '../../purchase-store/layout.ts';
import {
  dictionaryEntries,
  groupedPurchases,
  type StoreCatalogs,
} from '../../purchase-store/relations.ts';
import { currenciesOfAny, nameCurrencies, sumsByCurrency } from './currencies.ts';
import { countOpen, customersPart, openPart } from './customers.ts';
import { purchasesMatching } from './filters.ts';
import type { Generation } from './generation.ts';
import { type DayGrouping, dayGrouping } from './local-day.ts';
import { unfilteredTotals } from './unfiltered-totals.ts';

/** What is known of the matching purchases: their sums, and the number of customers in the base. */
export type KnownTotals = { readonly sums: PurchaseSums; readonly customersInBase: bigint | null };

export async function purchaseStats(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseStatsQuery,
  known: KnownTotals | null = null,
): Promise<PurchaseStats> {
  const { filters, groupLimit } = query;
  const matching = await purchasesMatching(connection, generation.labels, filters);
  if (matching === null) return emptyStats;
  const ranking = await readRanking(connection, generation, matching, query);
  const totals = isUnfiltered(filters)
    ? await unfilteredTotals(connection, generation)
    : await readTotals(connection, generation, filters, matching, {
        sums: known?.sums ?? ranking,
        customersInBase: known?.customersInBase ?? null,
      });
  const groups = ranking?.groups ?? [];
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

/**
 * One statement, because each statement costs a millisecond before it reads anything. Known
 * values are not read: the sums of the ranking, a filter by one customer, and currencies that
 * follow from the number of matching purchases.
 */
async function readTotals(
  connection: DuckDBConnection,
  generation: Generation,
  filters: PurchaseFilters,
  matching: Sql,
  { sums, customersInBase }: { [Key in keyof KnownTotals]: KnownTotals[Key] | null },
): Promise<PurchaseTotals> {
  const { catalogs } = generation;
  if (sums?.purchaseCount === 0n) return emptyStats;
  const ofAll = await sumsByCurrency(connection, generation);
  const known = currenciesOfAny(ofAll, sums?.purchaseCount ?? 1n);
  const areSumsKnown = sums !== null && known !== undefined;
  const isOneCustomer = filters.customerId !== undefined;
  const openness = customersInBase === null ? 'superseded' : 'any';
  const customers =
    customersInBase === null
      ? customersPart(catalogs, matching)
      : sql`(select ${customersInBase}::bigint), ${openPart(catalogs, openness, matching)}`;
  const parts = [
    ...(areSumsKnown ? [] : [sumsPart(catalogs, matching, known !== undefined)]),
    ...(isOneCustomer ? [] : [customers]),
  ];
  const [row = []] =
    parts.length === 0 ? [] : await queryRows(connection, sql`select * from ${join(parts, ', ')}`);
  const values = [...row];
  const [purchaseCount, revenueInCents, least, greatest] = areSumsKnown
    ? [sums.purchaseCount, sums.revenueInCents, null, null]
    : (values.splice(0, 4) as [bigint, bigint, number | null, number | null]);
  if (purchaseCount === 0n) return emptyStats;
  const read = least === null || greatest === null ? null : { least, greatest };
  const currencies = await nameCurrencies(connection, generation, known ?? read);
  if (isOneCustomer) return { purchaseCount, customerCount: 1n, revenueInCents, ...currencies };
  const [counted, open] = values as [bigint, bigint];
  const customerCount = counted + (await countOpen(connection, catalogs, openness, open, matching));
  return { purchaseCount, customerCount, revenueInCents, ...currencies };
}

/** Selects the count, the sum, and the least and greatest currency key of the matching purchases. */
function sumsPart(catalogs: StoreCatalogs, matching: Sql, areCurrenciesKnown: boolean): Sql {
  if (areCurrenciesKnown) {
    return sql`(
      select purchase_count, revenue, null, null from ${groupedPurchases(catalogs, matching, {})}
    ) as summed`;
  }
  const keys = { key: raw(labelKey('currency')) };
  return sql`(
    select coalesce(sum(purchase_count), 0)::bigint, coalesce(sum(revenue), 0),
      min(key) filter (key <> ${raw(String(noLabel))}), max(key) filter (key <> ${raw(String(noLabel))})
    from ${groupedPurchases(catalogs, matching, keys)} as grouped
  ) as summed`;
}

/** The first groups of the ranking, and the sums over all groups; null without a dimension. */
async function readRanking(
  connection: DuckDBConnection,
  { catalogs, summary }: Generation,
  matching: Sql,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
): Promise<(PurchaseSums & { readonly groups: readonly PurchaseGroup[] }) | null> {
  if (groupBy === undefined) return null;
  const ranking = (key: Sql) => groupedPurchases(catalogs, matching, { key });
  const ofDays = ({ key, day }: DayGrouping) =>
    day === null
      ? ranking(key)
      : sql`(
        select ${day} as key, sum(purchase_count)::bigint as purchase_count, sum(revenue) as revenue
        from ${ranking(key)}
        group by 1)`;
  const groupedByDay = (grouping: DayGrouping) => sql`
    select strftime(${grouping.date}, '%Y-%m-%d') as name, purchase_count, revenue
    from ${ofDays(grouping)}`;
  const groupedByLabel = (label: PurchaseLabel) => sql`
    select label.value as name, purchase_count, revenue
    from ${ranking(raw(labelKey(label)))} as ranking
    left join ${dictionaryEntries(catalogs, labelDictionary(label))} as label on label.key = ranking.key`;
  const named =
    groupBy === 'day'
      ? groupedByDay(await dayGrouping(summary, filters, timeZone))
      : groupedByLabel(labelOfDimension(groupBy));
  const rows = await queryRows(
    connection,
    // Not a window: two threads in DuckDB 1.5's window operator made DuckDB invalidate its instance.
    sql`
      with ranking as materialized (${named})
      select *, (select sum(purchase_count)::bigint from ranking), (select sum(revenue) from ranking)
      from ranking
      order by revenue desc, purchase_count desc, name asc nulls last
      limit ${raw(String(groupLimit + 1))}`,
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
