import type { Sql } from 'sql-template-tag';
import { comparedPeriod } from '../../domain/comparison.ts';
import { type PeriodCalendar, periodKeyAt, periodsBetween } from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import { averageTicket, type PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type DimensionValue,
  isPeriodDimension,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportPeriod,
  type ReportRow,
  type ReportValues,
} from '../../domain/purchase-report.ts';
import { type PeriodRange, rangeOf } from '../time-series.ts';
import {
  type Dialect,
  type ReportStatement,
  reportStatement,
  type Side,
  type Sums,
  sumColumns,
  sumsOf,
} from './statement.ts';

/** How a side's purchases are read. */
export type SideQuery = {
  readonly filters: PurchaseFilters;
  readonly dimensions: readonly ReportDimension[];
  readonly timeZone: string | undefined;
  /** The key of the period that counts as the first one. */
  readonly firstPeriod: number;
  readonly sums: Sums;
};

/** What an engine knows of one version of an organization's purchases. */
export type ReportReader = {
  readonly dialect: Dialect;
  /** The number of customers is only needed if `counts.customers`. */
  totals(
    filters: PurchaseFilters,
    counts: { readonly customers: boolean },
  ): Promise<PurchaseTotals>;
  /** No matching purchase is earlier or later; null if there are none. Microseconds since 1970. */
  bounds(
    filters: PurchaseFilters,
  ): Promise<{ readonly first: bigint; readonly last: bigint } | null>;
  /** The first and the last period with matching purchases. */
  range(calendar: PeriodCalendar, filters: PurchaseFilters): Promise<PeriodRange | null>;
  side(query: SideQuery): Promise<Side>;
  query(statement: Sql): Promise<readonly (readonly unknown[])[]>;
};

/** The report of the data as of `asOf`. Rejects with TooManyPeriodsError. */
export async function purchaseReport(
  reader: ReportReader,
  query: PurchaseReportQuery,
  asOf: bigint,
): Promise<PurchaseReport> {
  const sides = await filtersOfSides(query, asOf);
  const [current, compared] = sides as [PurchaseFilters, PurchaseFilters?];
  const periods = await periodsOf(reader, query, sides);
  const totals = await readTotals(reader, query, sides);
  const rows = query.groupBy.length === 0 ? [] : await readRows(reader, query, sides, periods);
  const sorted = isOfPeriodsAlone(query) ? await everyPeriod(query, rows, periods, current) : rows;
  const { currency, mixedCurrencies } = totals.ofCurrent;
  return {
    currency,
    mixedCurrencies,
    period: boundsOf(current),
    comparedPeriod: compared === undefined ? null : boundsOf(compared),
    totals: totals.values,
    rows: await named(query, sorted.slice(0, query.limit), periods),
    rowsTruncated: sorted.length > query.limit,
  };
}

const boundsOf = ({ createdSince, createdUntil }: PurchaseFilters): ReportPeriod => ({
  since: createdSince ?? null,
  until: createdUntil ?? null,
});

/** The filters of the period, and of the one that it is compared with. */
async function filtersOfSides(
  { filters, compareTo, timeZone }: PurchaseReportQuery,
  asOf: bigint,
): Promise<PurchaseFilters[]> {
  const { createdSince: since, createdUntil: until = asOf } = filters;
  if (compareTo === undefined || since === undefined) return [filters];
  const compared = await comparedPeriod({ since, until }, compareTo, timeZone);
  return [
    { ...filters, createdUntil: until },
    { ...filters, createdSince: compared.since, createdUntil: compared.until },
  ];
}

/** The periods of a report with a dimension of time. */
type Periods = {
  readonly calendar: PeriodCalendar;
  /** The position of the dimension. */
  readonly index: number;
  /** The keys of the periods that count as the first ones, by side. */
  readonly first: readonly number[];
};

/** Null without a dimension of time, and without purchases. */
async function periodsOf(
  reader: ReportReader,
  { groupBy, timeZone }: PurchaseReportQuery,
  sides: readonly PurchaseFilters[],
): Promise<Periods | null> {
  const index = groupBy.findIndex(isPeriodDimension);
  const interval = groupBy[index];
  const [current] = sides as [PurchaseFilters];
  if (interval === undefined || !isPeriodDimension(interval)) return null;
  const calendar = { interval, timeZone };
  if (!(await areFew(reader, calendar, current))) return null;
  const first =
    sides.length === 1
      ? [0]
      : await Promise.all(
          sides.map(({ createdSince = 0n }) => periodKeyAt(calendar, createdSince)),
        );
  return { calendar, index, first };
}

/** False if no purchase can match. Rejects with TooManyPeriodsError. */
async function areFew(
  reader: ReportReader,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
): Promise<boolean> {
  const bounds = await reader.bounds(filters);
  const { createdSince = bounds?.first, createdUntil = bounds?.last } = filters;
  if (createdSince === undefined || createdUntil === undefined) return false;
  if (createdSince > createdUntil) return false;
  const first = await periodKeyAt(calendar, createdSince);
  const last = await periodKeyAt(calendar, createdUntil);
  // The bounds may be wider than the matching purchases.
  if (last - first < maxPeriods) return true;
  return (
    (await rangeOf(calendar, filters, maxPeriods, () => reader.range(calendar, filters))) !== null
  );
}

async function readTotals(
  reader: ReportReader,
  { measures, timeZone }: PurchaseReportQuery,
  sides: readonly PurchaseFilters[],
): Promise<{ readonly ofCurrent: PurchaseTotals; readonly values: Omit<ReportRow, 'keys'> }> {
  const sums = { ...sumsOf(measures), customers: false };
  const isMore = sums.newCustomers || sums.returningCustomers || sums.amounts.length > 0;
  const ofSides: { totals: PurchaseTotals; values: ReportValues }[] = [];
  for (const filters of sides) {
    const totals = await reader.totals(filters, sumsOf(measures));
    const query = { filters, dimensions: [], timeZone, firstPeriod: 0, sums };
    const [row] = isMore
      ? await runStatement(reader, {
          sides: [await reader.side(query)],
          sums,
          order: null,
          limit: null,
        })
      : [];
    const known = {
      purchase_count: totals.purchaseCount,
      revenue_in_cents: totals.revenueInCents,
      customer_count: totals.customerCount,
    };
    const values = measuresOf(
      measures,
      (name) => known[name as 'purchase_count'] ?? row?.sums[0]?.get(name),
    );
    ofSides.push({ totals, values });
  }
  const [current, compared] = ofSides as [(typeof ofSides)[number], (typeof ofSides)[number]?];
  return {
    ofCurrent: current.totals,
    values: { values: current.values, compared: compared?.values ?? null },
  };
}

/** The values of measures, from the sums of a row. */
function measuresOf(
  measures: readonly ReportMeasure[],
  sumOf: (name: string) => bigint | undefined,
): ReportValues {
  return measures.map((measure) =>
    measure === 'average_ticket_in_cents'
      ? averageTicket(sumOf('revenue_in_cents') ?? 0n, sumOf('purchase_count') ?? 0n)
      : (sumOf(measure) ?? 0n),
  );
}

/** Null keys are missing values. */
type RawRow = {
  readonly keys: readonly unknown[];
  /** By side, the sums by name. */
  readonly sums: readonly ReadonlyMap<string, bigint>[];
};

/** Without any part no purchase matches. */
async function runStatement(
  { dialect, query }: ReportReader,
  statement: ReportStatement,
): Promise<RawRow[]> {
  const { sides, sums } = statement;
  if (sides.every(({ parts }) => parts.length === 0)) return [];
  const dimensions = sides[0]?.dimensions.length ?? 0;
  const rows = await query(reportStatement(dialect, statement));
  const names = sumColumns(sums, 1).map((column) => column.replace(/_0$/, ''));
  return rows.map((row) => ({
    keys: row.slice(0, dimensions),
    sums: sides.map((_, side) => {
      const begin = dimensions + side * names.length;
      return new Map(names.map((name, index) => [name, BigInt(row[begin + index] as bigint)]));
    }),
  }));
}

/** A row whose period is the number of periods since the first one. */
type CountedRow = Omit<ReportRow, 'keys'> & { readonly keys: readonly unknown[] };

const isOfPeriodsAlone = ({ groupBy }: PurchaseReportQuery): boolean =>
  groupBy.length === 1 && isPeriodDimension(groupBy[0] as string);

/** The rows in order; one more than the limit, if there are as many. */
async function readRows(
  reader: ReportReader,
  query: PurchaseReportQuery,
  filtersOf: readonly PurchaseFilters[],
  periods: Periods | null,
): Promise<CountedRow[]> {
  const { groupBy, measures, timeZone, orderBy, limit } = query;
  if (periods === null && groupBy.some(isPeriodDimension)) return [];
  const sums = sumsOf(measures);
  const sides: Side[] = [];
  for (const [index, filters] of filtersOf.entries()) {
    const firstPeriod = periods?.first[index] ?? 0;
    sides.push(await reader.side({ filters, dimensions: groupBy, timeZone, firstPeriod, sums }));
  }
  const dimension = groupBy.indexOf(orderBy.by as ReportDimension);
  const order = { ...orderBy, by: dimension === -1 ? (orderBy.by as ReportMeasure) : dimension };
  const isAll = isOfPeriodsAlone(query);
  const rows = await runStatement(reader, { sides, sums, order, limit: isAll ? null : limit + 1 });
  return rows.map(({ keys, sums: [current, compared] }) => ({
    keys,
    values: measuresOf(measures, (name) => current?.get(name)),
    compared: compared === undefined ? null : measuresOf(measures, (name) => compared.get(name)),
  }));
}

/** The rows with those of all other periods of the range, in order. */
async function everyPeriod(
  { measures, orderBy }: PurchaseReportQuery,
  rows: readonly CountedRow[],
  periods: Periods | null,
  { createdSince, createdUntil }: PurchaseFilters,
): Promise<CountedRow[]> {
  if (periods === null) return [];
  const { first, calendar } = periods;
  const [origin = 0] = first;
  const keys = rows.map(({ keys }) => Number(keys[0]) + origin);
  if (createdSince !== undefined) keys.push(await periodKeyAt(calendar, createdSince));
  if (createdUntil !== undefined) keys.push(await periodKeyAt(calendar, createdUntil));
  if (rows.length === 0 && keys.length < 2) return [];
  const zeros = measures.map(() => 0n);
  const compared = first.length === 1 ? null : zeros;
  const all = new Map<number, CountedRow>();
  for (const { key } of await periodsBetween(calendar, Math.min(...keys), Math.max(...keys))) {
    all.set(key - origin, { keys: [key - origin], values: zeros, compared });
  }
  for (const row of rows) all.set(Number(row.keys[0]), row);
  const ofPeriods = [...all].sort(([one], [other]) => one - other).map(([, row]) => row);
  const by = measures.indexOf(orderBy.by as ReportMeasure);
  if (by === -1) return orderBy.isDescending ? ofPeriods.reverse() : ofPeriods;
  const sign = orderBy.isDescending ? -1 : 1;
  const compare = (one: bigint, other: bigint) => (one < other ? -sign : one > other ? sign : 0);
  return ofPeriods.sort((one, other) => compare(one.values[by] ?? 0n, other.values[by] ?? 0n));
}

/** Rows with the values of their dimensions. */
async function named(
  { groupBy }: PurchaseReportQuery,
  rows: readonly CountedRow[],
  periods: Periods | null,
): Promise<ReportRow[]> {
  const beginnings = new Map<number, bigint>();
  if (periods !== null && rows.length > 0) {
    const { calendar, index, first } = periods;
    const [origin = 0] = first;
    const keys = rows.map(({ keys }) => Number(keys[index]) + origin);
    const [least, greatest] = [Math.min(...keys), Math.max(...keys)];
    for (const { key, startsAt } of await periodsBetween(calendar, least, greatest)) {
      beginnings.set(key - origin, startsAt);
    }
  }
  const shownOf = (key: unknown, index: number): DimensionValue => {
    const dimension = groupBy[index] as ReportDimension;
    if (isPeriodDimension(dimension)) return beginnings.get(Number(key)) ?? null;
    if (dimension === 'customer_type') return Number(key) === 0 ? 'new' : 'returning';
    if (dimension === 'customer') return BigInt(key as bigint);
    if (dimension === 'weekday' || dimension === 'hour_of_day') return Number(key);
    return key as string | null;
  };
  return rows.map((row) => ({ ...row, keys: row.keys.map(shownOf) }));
}
