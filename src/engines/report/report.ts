import { ownRows } from '../../domain/compared-periods.ts';
import { comparedPeriod } from '../../domain/comparison.ts';
import { averageTicket, type PurchaseTotals } from '../../domain/purchase-engine.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type Currencies,
  isPeriodDimension,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportPeriod,
  type ReportRow,
  type ReportValues,
} from '../../domain/purchase-report.ts';
import {
  type CountedRow,
  everyPeriod,
  isOfPeriodsAlone,
  named,
  type Periods,
  periodsOf,
} from './report-periods.ts';
import type { ReportReader } from './report-reader.ts';
import {
  type ReportStatement,
  reportStatement,
  type Side,
  sumColumns,
  sumsOf,
} from './statement.ts';

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
  return {
    ...totals.currencies,
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

/** The currencies of both periods, because a row has amounts of both. */
function currenciesOf(sides: readonly PurchaseTotals[]): Currencies {
  const currencies = new Set(sides.flatMap(({ currency }) => currency ?? []));
  const mixedCurrencies = currencies.size > 1 || sides.some((side) => side.mixedCurrencies);
  const [currency = null] = currencies;
  return { currency: mixedCurrencies ? null : currency, mixedCurrencies };
}

async function readTotals(
  reader: ReportReader,
  { measures, timeZone, weekStart }: PurchaseReportQuery,
  sides: readonly PurchaseFilters[],
): Promise<{ readonly currencies: Currencies; readonly values: Omit<ReportRow, 'keys'> }> {
  const sums = { ...sumsOf(measures), customers: false };
  const isMore = sums.newCustomers || sums.returningCustomers || sums.amounts.length > 0;
  const ofSides: { totals: PurchaseTotals; values: ReportValues }[] = [];
  for (const filters of sides) {
    const totals = await reader.totals(filters, sumsOf(measures));
    const query = { filters, dimensions: [], timeZone, weekStart, periodRows: ownRows, sums };
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
    currencies: currenciesOf(ofSides.map(({ totals }) => totals)),
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

/** The rows in order; one more than the limit, if there are as many. */
async function readRows(
  reader: ReportReader,
  query: PurchaseReportQuery,
  filtersOf: readonly PurchaseFilters[],
  periods: Periods | null,
): Promise<CountedRow[]> {
  const { groupBy, measures, timeZone, weekStart, orderBy, limit } = query;
  if (periods === null && groupBy.some(isPeriodDimension)) return [];
  const sums = sumsOf(measures);
  const sides: Side[] = [];
  for (const [index, filters] of filtersOf.entries()) {
    const periodRows = (index === 0 ? null : periods?.compared) ?? ownRows;
    sides.push(
      await reader.side({ filters, dimensions: groupBy, timeZone, weekStart, periodRows, sums }),
    );
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
