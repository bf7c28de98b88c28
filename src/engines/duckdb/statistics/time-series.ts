import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PeriodCalendar } from '../../../domain/period.ts';
import {
  emptyStats,
  type PurchaseStats,
  type PurchaseSums,
  type PurchaseTimeSeries,
} from '../../../domain/purchase-engine.ts';
import {
  labelOfDimension,
  maxPeriodsOf,
  type PeriodsQuery,
  type PurchaseFilters,
  type PurchaseTimeSeriesQuery,
} from '../../../domain/purchase-query.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import { labelDictionary, labelKey, noLabel } from '../../../purchase-store/format/layout.ts';
import { dictionaryEntries, groupedPurchases } from '../../../purchase-store/format/relations.ts';
import { reportStatement, sumsOf as sumsOfMeasures } from '../../report/statement.ts';
import {
  assembleTimeSeries,
  type PeriodRange,
  type PeriodRow,
  rangeOf,
  withInterval,
} from '../../time-series.ts';
import {
  type FirstsInPeriods,
  firstsInPeriods,
  type Periods,
  periodsOf,
} from '../calendar/periods.ts';
import { purchasesMatching } from '../filters.ts';
import type { QueryContext } from '../query-context.ts';
import type { Generation } from '../serving/generation.ts';
import { type CountedPeriods, readPeriods } from './counted-periods.ts';
import { customersOfBase } from './first-purchases.ts';
import { dialect, purchaseParts } from './purchase-parts.ts';
import { doStatsReadFirsts, type KnownTotals, purchaseStats } from './stats.ts';

/** Reads a time series. Statistics compute its totals and ranking. */
export async function purchaseTimeSeries(
  connection: DuckDBConnection,
  generation: Generation,
  wanted: PurchaseTimeSeriesQuery,
  context: QueryContext,
): Promise<PurchaseTimeSeries> {
  const { filters, groupBy, groupLimit } = wanted;
  const query = await withInterval(wanted, (calendar) =>
    readPeriodRange(connection, generation, calendar, filters, context),
  );
  const matching = (await purchasesMatching(connection, generation.labels, filters)) ?? sql`false`;
  const periods = await periodsOf(generation, query, context);
  const { firsts } = periods;
  const statsOf = (known?: KnownTotals) => {
    const totals = { filters, groupBy, groupLimit };
    return purchaseStats(connection, generation, totals, context, known);
  };
  if (groupBy === undefined && firsts !== null) {
    return withoutGroups(connection, generation, query, matching, { ...periods, firsts }, statsOf);
  }
  const range = await rangeOf(query, filters, maxPeriodsOf(query), () =>
    readRange(connection, generation, matching, periods),
  );
  const stats = await statsOf();
  return assembleTimeSeries(query, stats, range, async () => {
    const series = await readSeries(connection, generation, query, stats);
    const condition = series === null ? matching : sql`${matching} and ${series.condition}`;
    const key = series?.key ?? raw('0');
    const rows = await readGroupedPeriods(connection, generation, filters, condition, key, {
      ...periods,
      shortcuts: context.shortcuts,
    });
    return rows.map((row) => ({ ...row, series: series?.names.get(row.series) ?? null }));
  });
}

/** Whether a time series reads the table `previous_change`; with groups, only its statistics do. */
export const doesTimeSeriesReadFirsts = (
  generation: Generation,
  query: PurchaseTimeSeriesQuery,
  context: Pick<QueryContext, 'shortcuts'>,
): boolean =>
  (query.groupBy === undefined &&
    firstsInPeriods(generation, query.filters, context.shortcuts) !== null) ||
  doStatsReadFirsts(generation, query, context);

/** One statement reads the base: the periods have all sums, and the range unless it may be too long. */
async function withoutGroups(
  connection: DuckDBConnection,
  generation: Generation,
  query: PeriodsQuery,
  matching: Sql,
  periods: Periods & { readonly firsts: FirstsInPeriods },
  statsOf: (known: KnownTotals) => Promise<PurchaseStats>,
): Promise<PurchaseTimeSeries> {
  const { filters } = query;
  const { areFew, firsts } = periods;
  let counted: CountedPeriods | null = null;
  const read = async () => {
    if (counted !== null) return counted;
    const customers = firsts.hasStoredCustomers
      ? await customersOfBase(connection, generation, firsts.paymentStatus, matching)
      : null;
    counted = await readPeriods(connection, generation.catalogs, matching, periods, customers);
    return counted;
  };
  const range = await rangeOf(query, filters, maxPeriodsOf(query), async () =>
    areFew
      ? rangeOfRows((await read()).rows)
      : readRange(connection, generation, matching, periods),
  );
  if (range === null) return assembleTimeSeries(query, emptyStats, range, async () => []);
  const { rows, customerCount } = await read();
  const stats = await statsOf({ sums: sumsOf(rows), customerCount });
  return assembleTimeSeries(query, stats, range, async () =>
    rows.map((row) => ({ ...row, series: null })),
  );
}

function sumsOf(rows: CountedPeriods['rows']): PurchaseSums {
  let purchaseCount = 0n;
  let revenueInCents = 0n;
  for (const row of rows) {
    purchaseCount += row.purchaseCount;
    revenueInCents += row.revenueInCents;
  }
  return { purchaseCount, revenueInCents };
}

function rangeOfRows(rows: CountedPeriods['rows']): PeriodRange | null {
  const periods = rows.map(({ period }) => period);
  return rows.length === 0 ? null : { first: Math.min(...periods), last: Math.max(...periods) };
}

async function readRange(
  connection: DuckDBConnection,
  { catalogs }: Generation,
  matching: Sql,
  { period, joined, keyOf }: Periods,
): Promise<PeriodRange | null> {
  const [row] = await queryRows(
    connection,
    sql`
      select min(period), max(period)
      from ${groupedPurchases(catalogs, matching, { period }, {}, joined)}`,
  );
  const [first, last] = (row ?? [null, null]) as (number | null)[];
  return first == null || last == null ? null : { first: keyOf(first), last: keyOf(last) };
}

/** The label keys of the ranking; null without a dimension. */
async function readSeries(
  connection: DuckDBConnection,
  { catalogs }: Generation,
  { groupBy }: PurchaseTimeSeriesQuery,
  { groups }: PurchaseStats,
): Promise<{ key: Sql; condition: Sql; names: ReadonlyMap<number, string> } | null> {
  if (groupBy === undefined) return null;
  const label = labelOfDimension(groupBy);
  const names = groups.flatMap(({ key }) => (key === null ? [] : [sql`${key}::varchar`]));
  const entries = dictionaryEntries(catalogs, labelDictionary(label));
  const rows =
    names.length === 0
      ? []
      : await queryRows(
          connection,
          sql`select key, value from ${entries} where value in (${join(names)})`,
        );
  const keys = rows.map(([key]) => String(key));
  if (groups.some(({ key }) => key === null)) keys.push(String(noLabel));
  const key = raw(labelKey(label));
  return {
    key,
    condition: sql`${key} in (${raw(keys.join(', '))})`,
    names: new Map(rows.map(([key, value]) => [key as number, value as string])),
  };
}

/** Reads the matching purchases by series and period, as a report does. */
async function readGroupedPeriods(
  connection: DuckDBConnection,
  generation: Generation,
  filters: PurchaseFilters,
  condition: Sql,
  series: Sql,
  { period, joined, keyOf, shortcuts }: Periods & Pick<QueryContext, 'shortcuts'>,
): Promise<(Omit<PeriodRow, 'series'> & { readonly series: number })[]> {
  const parts = await purchaseParts(connection, generation, filters, countedCustomers, shortcuts);
  const side = {
    dimensions: [{ key: series }, { key: period }],
    parts: parts.map(({ sign, purchases }) => ({
      sign,
      purchases: sql`${purchases} as purchase ${joined}`,
      condition,
    })),
  };
  const sums = sumsOfMeasures(['customer_count']);
  const statement = { sides: [side], sums, order: null, limit: null };
  const rows = await queryRows(connection, reportStatement(dialect, statement));
  return rows.map(([series, period, purchaseCount, revenueInCents, customerCount]) => ({
    series: series as number,
    period: keyOf(period as number),
    purchaseCount: purchaseCount as bigint,
    revenueInCents: revenueInCents as bigint,
    customerCount: customerCount as bigint,
  }));
}

const countedCustomers = { firsts: false, customers: true, allColumns: false };

/** The first and the last period of the matching purchases; null if there are none. */
export async function readPeriodRange(
  connection: DuckDBConnection,
  generation: Generation,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
  context: QueryContext,
): Promise<PeriodRange | null> {
  const matching = await purchasesMatching(connection, generation.labels, filters);
  if (matching === null) return null;
  const periods = await periodsOf(generation, { ...calendar, filters, groupLimit: 1 }, context);
  return readRange(connection, generation, matching, periods);
}
