import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { empty, raw, type Sql } from 'sql-template-tag';
import {
  intervalLengths,
  intervalMonths,
  isOfMonths,
  type PeriodCalendar,
  periodOffsets,
} from '../../../domain/period.ts';
import type { PurchaseTotals } from '../../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../../domain/purchase-query.ts';
import { labelOfDimension } from '../../../domain/purchase-query.ts';
import {
  isPeriodDimension,
  type PeriodDimension,
  type PurchaseCohorts,
  type PurchaseCohortsQuery,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
} from '../../../domain/purchase-report.ts';
import { queryRows } from '../../../duckdb/connection.ts';
import {
  customerDictionary,
  labelDictionary,
  labelKey,
} from '../../../purchase-store/format/layout.ts';
import { dictionaryEntries } from '../../../purchase-store/format/relations.ts';
import { type CohortSource, purchaseCohorts as cohorts } from '../../report/cohorts.ts';
import { purchaseReport as report } from '../../report/report.ts';
import type { ReportReader, SideQuery } from '../../report/report-reader.ts';
import type { DimensionSql, Side } from '../../report/statement.ts';
import { localPeriod, localUnits, unitKey, unitOf } from '../calendar/local-time.ts';
import { joinPeriods } from '../calendar/period-tables.ts';
import { purchasesMatching } from '../filters.ts';
import { type Generation, purchasesWithin, timeBounds } from '../serving/generation.ts';
import { dialect, purchaseParts } from './purchase-parts.ts';
import { purchaseStats, type QueryContext } from './stats.ts';
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
  { filters, interval, groupBy, timeZone }: PurchaseCohortsQuery,
  context: QueryContext,
): Promise<CohortSource> {
  const { paymentStatuses, ...others } = filters;
  const ofAll = { paymentStatuses };
  const condition = await purchasesMatching(connection, generation.labels, ofAll);
  const isWon = await purchasesMatching(connection, generation.labels, others);
  const period = await periodSql(generation, { interval, timeZone }, ofAll, 0, context);
  const needs = { firsts: true, customers: true, allColumns: false };
  const parts =
    condition === null || isWon === null
      ? []
      : await purchaseParts(connection, generation, filters, needs);
  return {
    isWon: isWon ?? sql`false`,
    period,
    group: groupBy === undefined ? null : labelSql(generation, labelOfDimension(groupBy)),
    currency: labelSql(generation, 'currency'),
    parts: parts.map(({ sign, purchases }) => ({
      sign,
      purchases: sql`${purchases} as purchase ${period.joined ?? empty}`,
      condition: condition ?? sql`false`,
    })),
  };
}

/** The table of first purchases is not brought up to date for a report. */
const totalsOf =
  (connection: DuckDBConnection, generation: Generation, context: QueryContext) =>
  (filters: PurchaseFilters, counts = { customers: false }): Promise<PurchaseTotals> =>
    purchaseStats(
      connection,
      generation,
      { filters, groupLimit: 1 },
      { ...context, minPurchasesForFirsts: Number.POSITIVE_INFINITY },
      { sums: null, customerCount: counts.customers ? null : 0n },
    );

async function sideOf(
  connection: DuckDBConnection,
  generation: Generation,
  side: SideQuery,
  context: QueryContext,
): Promise<Side> {
  const { filters, sums } = side;
  const matching = await purchasesMatching(connection, generation.labels, filters);
  const read = await Promise.all(
    side.dimensions.map((dimension) => dimensionSql(generation, dimension, side, context)),
  );
  const dimensions = read.map(({ joined: _, ...dimension }) => dimension);
  if (matching === null) return { parts: [], dimensions };
  const parts = await purchaseParts(connection, generation, filters, {
    firsts:
      sums.newCustomers || sums.returningCustomers || side.dimensions.includes('customer_type'),
    customers: sums.customers,
    allColumns: sums.amounts.length > 0,
  });
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

type JoinedDimension = DimensionSql & { readonly joined?: Sql };

async function dimensionSql(
  generation: Generation,
  dimension: ReportDimension,
  { filters, timeZone, firstPeriod }: SideQuery,
  context: QueryContext,
): Promise<JoinedDimension> {
  if (isPeriodDimension(dimension)) {
    const calendar = { interval: dimension, timeZone };
    return periodSql(generation, calendar, filters, firstPeriod, context);
  }
  const local = async (unit: 'day' | 'hour'): Promise<Sql> => {
    const bounds = timeBounds(generation.summary, filters);
    const offsets = await periodOffsets({ interval: 'day', timeZone }, bounds.since, bounds.until);
    return localUnits(offsets, intervalLengths[unit]);
  };
  switch (dimension) {
    case 'weekday':
      return { key: sql`(${await local('day')} % 7 + 1)` };
    case 'hour_of_day':
      return { key: sql`(${await local('hour')} % 24)` };
    case 'customer_type':
      return { key: raw('is_first'), match: (key) => sql`(case when ${key} then 0 else 1 end)` };
    case 'customer':
      return {
        key: raw(customerDictionary.key),
        isCustomer: true,
        shown: (key) => ({
          join: sql`join ${dictionaryEntries(generation.catalogs, customerDictionary)} as customer
            on customer.key = ${key}`,
          value: raw('customer.id'),
        }),
      };
    default:
      return labelSql(generation, labelOfDimension(dimension));
  }
}

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
  { summary }: Generation,
  calendar: PeriodCalendar & { readonly interval: PeriodDimension },
  filters: PurchaseFilters,
  firstPeriod: number,
  { periodTables }: QueryContext,
): Promise<JoinedDimension> {
  const { interval } = calendar;
  const bounds = timeBounds(summary, filters);
  const match = (period: Sql) => {
    const key = isOfMonths(interval)
      ? sql`datediff('month', date '0001-01-01', date '0001-01-01' + ${period})
          // ${raw(String(intervalMonths[interval]))}`
      : period;
    return sql`(${key} - ${raw(String(firstPeriod))})`;
  };
  const table = await periodTables.covering(calendar, bounds, purchasesWithin(summary, bounds));
  if (table !== null) return { key: raw('period'), match, joined: joinPeriods(table) };
  const offsets = await periodOffsets(calendar, bounds.since, bounds.until);
  const period = localPeriod(interval, offsets);
  return { key: unitKey(period, unitOf(interval), bounds), match };
}
