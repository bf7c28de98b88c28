import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import {
  intervalLengths,
  intervalMonths,
  isOfMonths,
  type LocalCalendar,
  type PeriodCalendar,
  periodOffsets,
} from '../../../domain/period.ts';
import type { PurchaseTotals } from '../../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import { labelOfDimension } from '../../../domain/purchase-query.ts';
import type {
  PeriodDimension,
  PurchaseCohorts,
  PurchaseCohortsQuery,
  PurchaseReport,
  PurchaseReportQuery,
} from '../../../domain/purchase-report.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import { shortcutSettings } from '../../../duckdb/shortcuts.ts';
import {
  customerDictionary,
  labelDictionary,
  labelKey,
  noLabel,
} from '../../../purchase-store/format/layout.ts';
import { dictionaryEntries } from '../../../purchase-store/format/relations.ts';
import { type CohortSource, purchaseCohorts as cohorts } from '../../report/cohorts.ts';
import { type DimensionSource, dimensionOf, needsFirsts } from '../../report/dimensions.ts';
import { purchaseReport as report } from '../../report/report.ts';
import type { ReportReader, SideQuery } from '../../report/report-reader.ts';
import type { DimensionSql, Side } from '../../report/statement.ts';
import { localPeriod, localUnits, unitKey, unitOf } from '../calendar/local-time.ts';
import { isFirstInPeriod, joinPeriods } from '../calendar/period-tables.ts';
import { purchasesMatching } from '../filters.ts';
import type { QueryContext } from '../query-context.ts';
import { type Generation, purchasesWithin, timeBounds } from '../serving/generation.ts';
import { dialect, purchaseParts } from './purchase-parts.ts';
import { requireFewGroups } from './report-size.ts';
import { purchaseStats } from './stats.ts';
import { readPeriodRange } from './time-series.ts';

/** Reads a report. Statistics compute the totals that they have as well. */
export async function purchaseReport(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseReportQuery,
  context: QueryContext,
  asOf: bigint,
): Promise<PurchaseReport> {
  const reader: ReportReader = {
    dialect,
    totals: totalsOf(connection, generation, context),
    bounds: async (filters) => {
      if (generation.summary.isEmpty) return null;
      const { since, until } = timeBounds(generation.summary, filters);
      return { first: since, last: until };
    },
    range: (calendar, filters) =>
      readPeriodRange(connection, generation, calendar, filters, context),
    side: (side) => sideOf(connection, generation, side, context),
    query: (statement) => queryRows(connection, statement),
  };
  return report(reader, query, asOf);
}

/** Reads cohorts of customers. */
export async function purchaseCohorts(
  connection: DuckDBConnection,
  generation: Generation,
  query: PurchaseCohortsQuery,
  context: QueryContext,
  asOf: bigint,
): Promise<PurchaseCohorts> {
  const reader = {
    dialect,
    totals: totalsOf(connection, generation, context),
    source: () => cohortSource(connection, generation, query, context),
    query: (statement: Sql) => queryRows(connection, statement),
  };
  return cohorts(reader, query, asOf);
}

async function cohortSource(
  connection: DuckDBConnection,
  generation: Generation,
  { filters, interval, groupBy, timeZone, weekStart }: PurchaseCohortsQuery,
  context: QueryContext,
): Promise<CohortSource> {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { paymentStatuses };
  const condition = await purchasesMatching(connection, generation.labels, ofAll);
  const isWon = await purchasesMatching(connection, generation.labels, others);
  const period = await periodSql(generation, { interval, timeZone, weekStart }, ofAll, context);
  const areFirstsCounted =
    generation.summary.purchases >= context.shortcuts.minPurchasesForFirstsInCohorts;
  const needs = { firsts: true, customers: true, allColumns: false };
  const parts =
    condition === null || isWon === null
      ? []
      : await purchaseParts(connection, generation, filters, needs, context.shortcuts);
  return {
    isWon: isWon ?? sql`false`,
    period,
    group: groupBy === undefined ? null : labelSql(generation, labelOfDimension(groupBy)),
    currency: labelSql(generation, 'currency'),
    hasCurrency: raw(`${labelKey('currency')} <> ${noLabel}`),
    parts: parts.map(({ sign, purchases, previous }) => ({
      sign,
      purchases: sql`${purchases} as purchase ${period.joined ?? empty}`,
      condition: condition ?? sql`false`,
      isFirstInPeriod:
        previous === undefined || period.joined === undefined || !areFirstsCounted
          ? undefined
          : isFirstInPeriod(raw(previous)),
    })),
  };
}

const withoutFirsts = { minPurchasesForFirsts: shortcutSettings.minPurchasesForFirsts.off };

/** The table of first purchases is not brought up to date for a report. */
const totalsOf =
  (connection: DuckDBConnection, generation: Generation, context: QueryContext) =>
  (filters: PurchaseFilters, counts = { customers: false }): Promise<PurchaseTotals> =>
    purchaseStats(
      connection,
      generation,
      { filters, groupLimit: 1 },
      { ...context, shortcuts: { ...context.shortcuts, ...withoutFirsts } },
      { sums: null, customerCount: counts.customers ? null : 0n },
    );

async function sideOf(
  connection: DuckDBConnection,
  generation: Generation,
  side: SideQuery,
  context: QueryContext,
): Promise<Side> {
  const { filters, sums } = side;
  await requireFewGroups(connection, generation, side, context.shortcuts.maxReportGroups);
  const matching = await purchasesMatching(connection, generation.labels, filters);
  const source = dimensionsOf(generation, side, context);
  const read: JoinedDimension[] = await Promise.all(
    side.dimensions.map((dimension) => dimensionOf(source, dimension, side)),
  );
  const dimensions = read.map(({ joined: _, ...dimension }) => dimension);
  if (matching === null) return { parts: [], dimensions };
  const needs = {
    firsts: needsFirsts(side),
    customers: sums.customers,
    allColumns: sums.amounts.length > 0,
  };
  const parts = await purchaseParts(connection, generation, filters, needs, context.shortcuts);
  const joined = read.find(({ joined }) => joined !== undefined)?.joined ?? empty;
  return {
    dimensions,
    parts: parts.map(({ sign, purchases }) => ({
      sign,
      purchases: sql`${purchases} as purchase ${joined}`,
      condition: matching,
    })),
  };
}

/** `joined` is a join of the tables of purchases, which the dimension needs. */
type JoinedDimension = DimensionSql & { readonly joined?: Sql };

const dimensionsOf = (
  generation: Generation,
  { filters, timeZone, weekStart }: LocalCalendar & Pick<SideQuery, 'filters'>,
  context: QueryContext,
): DimensionSource<JoinedDimension> => ({
  period: (interval) => periodSql(generation, { interval, timeZone, weekStart }, filters, context),
  async localUnits(unit) {
    const { since, until } = timeBounds(generation.summary, filters);
    const offsets = await periodOffsets({ interval: 'day', timeZone }, since, until);
    return localUnits(offsets, intervalLengths[unit]);
  },
  label: (label) => labelSql(generation, label),
  quotient: dialect.quotient,
  customer: {
    key: raw(customerDictionary.key),
    shown: (key) => ({
      join: sql`join ${dictionaryEntries(generation.catalogs, customerDictionary)} as customer
        on customer.key = ${key}`,
      value: raw('customer.id'),
    }),
  },
});

function labelSql(
  { catalogs }: Generation,
  label: ReturnType<typeof labelOfDimension>,
): DimensionSql {
  const entries = dictionaryEntries(catalogs, labelDictionary(label));
  return {
    key: raw(labelKey(label)),
    isText: true,
    shown: (key) => ({
      join: sql`left join ${entries} as of_${raw(label)} on of_${raw(label)}.key = ${key}`,
      value: raw(`of_${label}.value`),
    }),
  };
}

async function periodSql(
  { summary, ofBase }: Generation,
  calendar: PeriodCalendar & { readonly interval: PeriodDimension },
  filters: PurchaseFilters,
  { periodTables, shortcuts }: QueryContext,
): Promise<JoinedDimension> {
  const { interval } = calendar;
  const bounds = timeBounds(summary, filters);
  const match = (period: Sql) =>
    isOfMonths(interval)
      ? sql`datediff('month', date '0001-01-01', date '0001-01-01' + ${period})
          // ${raw(String(intervalMonths[interval]))}`
      : period;
  const table = await periodTables.covering(calendar, bounds, purchasesWithin(summary, bounds));
  if (table !== null) {
    const since = ofBase.firstQuarter ?? undefined;
    return { key: raw('period'), match, joined: joinPeriods(table, since) };
  }
  const offsets = await periodOffsets(calendar, bounds.since, bounds.until);
  const period = localPeriod(interval, offsets);
  return { key: unitKey(period, unitOf(interval), bounds, shortcuts), match };
}
