import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseLabel } from '../../../domain/purchase.ts';
import {
  emptyStats,
  type PurchaseGroup,
  type PurchaseStats,
  type PurchaseSums,
  type PurchaseTotals,
} from '../../../domain/purchase-engine.ts';
import {
  isUnfiltered,
  labelOfDimension,
  type PurchaseFilters,
  type PurchaseStatsQuery,
} from '../../../domain/purchase-query.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import type { Shortcuts } from '../../../duckdb/shortcuts.ts';
import { labelDictionary, labelKey, noLabel } from '../../../purchase-store/format/layout.ts';
import {
  dictionaryEntries,
  groupedPurchases,
  type StoreCatalogs,
} from '../../../purchase-store/format/relations.ts';
import { type DayGrouping, dayGrouping } from '../calendar/local-day.ts';
import { purchasesMatching } from '../filters.ts';
import type { QueryContext } from '../query-context.ts';
import type { Generation } from '../serving/generation.ts';
import { currenciesOfAny, nameCurrencies, sumsByCurrency } from './currencies.ts';
import { countOpen, customersPart } from './distinct-customers.ts';
import {
  changedFirsts,
  customersOfBase,
  type FirstPurchases,
  firstPurchases,
} from './first-purchases.ts';
import { unfilteredTotals } from './unfiltered-totals.ts';

/** Results of the matching purchases that an earlier statement has read; null if it has not. */
export type KnownTotals = {
  readonly sums: PurchaseSums | null;
  readonly customerCount: bigint | null;
};

export async function purchaseStats(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseStatsQuery,
  context: QueryContext,
  known: KnownTotals = { sums: null, customerCount: null },
): Promise<PurchaseStats> {
  const { filters, groupLimit } = query;
  const matching = await purchasesMatching(connection, generation.labels, filters);
  if (matching === null) return emptyStats;
  const { shortcuts } = context;
  const firsts = firstPurchasesOf(generation, query, context);
  const baseCustomers =
    firsts?.hasStoredCustomers && known.customerCount === null
      ? await customersOfBase(connection, generation, firsts.paymentStatus, matching)
      : null;
  const read = { matching, firsts, baseCustomers };
  const ranking = await readRanking(connection, generation, read, query, context);
  const totals = areTotalsStored(generation, filters, shortcuts)
    ? await unfilteredTotals(connection, generation, shortcuts)
    : await readTotals(connection, generation, filters, read, ranking ?? known, shortcuts);
  const groups = ranking?.groups ?? [];
  return {
    ...totals,
    groups: groups.slice(0, groupLimit),
    groupsTruncated: groups.length > groupLimit,
  };
}

/** How a query finds the matching purchases, and the first ones of their customers. */
type Read = {
  readonly matching: Sql;
  readonly firsts: FirstPurchases | null;
  /** The customers of the base; null if its first purchases have to be counted. */
  readonly baseCustomers: bigint | null;
};

const areTotalsStored = (
  { summary }: Generation,
  filters: PurchaseFilters,
  { minPurchasesForStoredTotals }: Shortcuts,
): boolean => isUnfiltered(filters) && summary.purchases >= minPurchasesForStoredTotals;

/** Null if customers have to be grouped, or are known. */
function firstPurchasesOf(
  generation: Generation,
  { filters }: PurchaseStatsQuery,
  { shortcuts }: Pick<QueryContext, 'shortcuts'>,
): FirstPurchases | null {
  const isShort = generation.summary.purchases < shortcuts.minPurchasesForFirsts;
  if (isShort || areTotalsStored(generation, filters, shortcuts)) return null;
  const firsts = firstPurchases(generation, filters, shortcuts);
  return firsts?.isWithinQuarter ? null : firsts;
}

/** Whether statistics read the table `previous_change`. */
export const doStatsReadFirsts = (
  generation: Generation,
  query: PurchaseStatsQuery,
  context: Pick<QueryContext, 'shortcuts'>,
): boolean => firstPurchasesOf(generation, query, context) !== null;

/**
 * One statement, because each statement costs a millisecond before it reads anything. Known
 * values are not read: the sums and customers of the ranking, a filter by one customer, and currencies
 * that follow from the number of matching purchases.
 */
async function readTotals(
  connection: DuckDBConnection,
  generation: Generation,
  { customerId }: PurchaseFilters,
  read: Read,
  { sums, customerCount }: KnownTotals,
  shortcuts: Shortcuts,
): Promise<PurchaseTotals> {
  const { matching, firsts } = read;
  const { catalogs } = generation;
  if (sums?.purchaseCount === 0n) return emptyStats;
  const ofAll = await sumsByCurrency(connection, generation, shortcuts);
  const known = currenciesOfAny(ofAll, sums?.purchaseCount ?? 1n, shortcuts);
  const areSumsKnown = sums !== null && known !== undefined;
  const knownCustomers = customerId === undefined ? customerCount : 1n;
  const areCustomersGrouped = knownCustomers === null && firsts === null;
  const parts = [
    ...(areSumsKnown ? [] : [sumsPart(catalogs, read, known !== undefined)]),
    ...(areCustomersGrouped ? [customersPart(catalogs, matching)] : []),
  ];
  const [row = []] =
    parts.length === 0 ? [] : await queryRows(connection, sql`select * from ${join(parts, ', ')}`);
  const values = [...row];
  const [purchaseCount, revenueInCents, least, greatest, first] = areSumsKnown
    ? [sums.purchaseCount, sums.revenueInCents, null, null, null]
    : (values.splice(0, 5) as [bigint, bigint, number | null, number | null, bigint | null]);
  if (purchaseCount === 0n) return emptyStats;
  const keys = least === null || greatest === null ? null : { least, greatest };
  const currencies = await nameCurrencies(connection, generation, known ?? keys);
  const [counted = 0n, open = 0n] = values as bigint[];
  const customers = areCustomersGrouped
    ? counted + (await countOpen(connection, catalogs, open, matching))
    : (knownCustomers ?? (first as bigint) + (read.baseCustomers ?? 0n));
  return { purchaseCount, customerCount: customers, revenueInCents, ...currencies };
}

/**
 * Selects the count, the sum, the least and greatest currency key of the matching purchases, and the
 * number of first ones.
 */
function sumsPart(catalogs: StoreCatalogs, read: Read, areCurrenciesKnown: boolean): Sql {
  const { matching } = read;
  const first = firstOf(catalogs, read);
  const keys = areCurrenciesKnown ? {} : { key: raw(labelKey('currency')) };
  const hasCurrency = sql`purchase_count > 0 and key <> ${raw(String(noLabel))}`;
  const currencies = areCurrenciesKnown
    ? sql`null, null`
    : sql`min(key) filter (${hasCurrency}), max(key) filter (${hasCurrency})`;
  return sql`(
    select coalesce(sum(purchase_count), 0)::bigint, coalesce(sum(revenue), 0), ${currencies}, ${first.all}
    from ${groupedPurchases(catalogs, matching, keys, first.inBase)} as grouped
  ) as summed`;
}

/**
 * Counts first purchases in groups of the base, and adds them up. If the number of the base is known, only
 * the first purchases that the delta adds are counted.
 */
function firstOf(
  catalogs: StoreCatalogs,
  { matching, firsts, baseCustomers }: Read,
): { readonly inBase: Readonly<Record<string, Sql>>; readonly all: Sql } {
  if (firsts === null) return { inBase: {}, all: sql`max(null::bigint)` };
  const first = { first: firsts.isFirst };
  const changed = sql`(select first from ${changedFirsts(catalogs, matching, {}, first)})`;
  return baseCustomers === null
    ? { inBase: first, all: sql`coalesce(sum(first), 0)::bigint + ${changed}` }
    : { inBase: {}, all: sql`max(${changed})` };
}

/** A row of the ranking if there are no groups. */
const noGroups = [null, null, null, 0n, 0n, null];

/** The first groups of the ranking, and the totals of all groups; null without a dimension. */
async function readRanking(
  connection: DuckDBConnection,
  { catalogs, summary }: Generation,
  read: Read,
  { filters, groupBy, groupLimit, timeZone }: PurchaseStatsQuery,
  context: QueryContext,
): Promise<(KnownTotals & { readonly groups: readonly PurchaseGroup[] }) | null> {
  if (groupBy === undefined) return null;
  const { matching } = read;
  const first = firstOf(catalogs, read);
  const columns = raw(['purchase_count', 'revenue', ...Object.keys(first.inBase)].join(', '));
  const ranking = (key: Sql, joined?: Sql) =>
    groupedPurchases(catalogs, matching, { key }, first.inBase, joined);
  const groupedByDay = ({ key, joined, date }: DayGrouping) => sql`
    select strftime(${date}, '%Y-%m-%d') as name, ${columns}
    from ${ranking(key, joined)}`;
  const groupedByLabel = (label: PurchaseLabel) => sql`
    select label.value as name, ${columns}
    from ${ranking(raw(labelKey(label)))} as ranking
    left join ${dictionaryEntries(catalogs, labelDictionary(label))} as label on label.key = ranking.key`;
  const named =
    groupBy === 'day'
      ? groupedByDay(await dayGrouping(summary, filters, timeZone, context))
      : groupedByLabel(labelOfDimension(groupBy));
  const rows = await queryRows(
    connection,
    // Not a window: two threads in DuckDB 1.5's window operator made DuckDB invalidate its instance.
    sql`
      with ranking as materialized (${named})
      select name, purchase_count, revenue, (select sum(purchase_count)::bigint from ranking),
        (select sum(revenue) from ranking), (select ${first.all} from ranking)
      from ranking
      where purchase_count > 0
      order by revenue desc, purchase_count desc, name asc nulls last
      limit ${raw(String(groupLimit + 1))}`,
  );
  const [, , , purchaseCount, revenueInCents, customerCount] = rows[0] ?? noGroups;
  return {
    sums: { purchaseCount: purchaseCount as bigint, revenueInCents: revenueInCents as bigint },
    customerCount:
      customerCount === null ? null : (customerCount as bigint) + (read.baseCustomers ?? 0n),
    groups: rows.map(([key, count, revenue]) => ({
      key: key as string | null,
      purchaseCount: count as bigint,
      revenueInCents: revenue as bigint,
    })),
  };
}
