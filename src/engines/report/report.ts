import { comparedPeriod } from '../../domain/compared-period.ts';
import { grouped } from '../../domain/grouped.ts';
import { ownRows } from '../../domain/period-rows.ts';
import { isUnfiltered, type PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type Currencies,
  currenciesOf,
  isPeriodDimension,
  noCurrency,
  type PurchaseReport,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportPeriod,
  type ReportRow,
} from '../../domain/purchase-report.ts';
import {
  type Group,
  inOrder,
  measuresOf,
  readFirstGroups,
  readGroups,
  sumOfGroups,
  type Values,
} from './groups.ts';
import type { Order } from './ordered-statement.ts';
import {
  everyPeriodOf,
  named,
  type Periods,
  periodsOf,
  type ResolvedQuery,
  withInterval,
  withPeriodRows,
} from './report-periods.ts';
import type { ReportSource } from './source.ts';
import { addsUp, type Read, type SumName, sumsOf } from './statement.ts';

/** The report of the data as of `asOf`. Rejects with TooManyPeriodsError and TooManyGroupsError. */
export async function readPurchaseReport(
  source: ReportSource,
  wanted: PurchaseReportQuery,
  asOf: bigint,
): Promise<PurchaseReport> {
  const query = await withInterval(source, wanted);
  const sides = await filtersOfSides(query, asOf);
  const [current, compared] = sides as [PurchaseFilters, PurchaseFilters?];
  const periods = await periodsOf(source, query, sides);
  const reading = { source, query, sides, periods };
  const { totals, currencies, ...read } = await readReport(reading);
  const { rows, isTruncated } = await rowsOf(reading, read);
  const totalMeasures = query.totals ?? query.measures;
  const [ofCurrent = {}, ofCompared] = totals;
  return {
    ...currencies,
    groupBy: query.groupBy,
    period: boundsOf(current),
    comparedPeriod: compared === undefined ? null : boundsOf(compared),
    totals: {
      values: measuresOf(totalMeasures, ofCurrent),
      compared: compared === undefined ? null : measuresOf(totalMeasures, ofCompared ?? {}),
    },
    rows,
    rowsTruncated: isTruncated,
  };
}

const boundsOf = ({ createdSince, createdUntil }: PurchaseFilters): ReportPeriod => ({
  since: createdSince ?? null,
  until: createdUntil ?? null,
});

/** The filters of the period, and of the one that it is compared with. */
async function filtersOfSides(
  { filters, compareTo, timeZone }: ResolvedQuery,
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

type Reading = {
  readonly source: ReportSource;
  readonly query: ResolvedQuery;
  /** The filters of each side. */
  readonly sides: readonly PurchaseFilters[];
  readonly periods: Periods | null;
};

type Result = {
  /** All groups, or the first ones; in their order, but with every period. */
  readonly groups: readonly Group[];
  readonly areAllRead: boolean;
  /** Of each side. */
  readonly totals: readonly Values[];
  readonly currencies: Currencies;
};

/** One statement reads few groups, and what does not follow from them. Of many groups, another reads the first. */
async function readReport(reading: Reading): Promise<Result> {
  const { source, query, sides, periods } = reading;
  const { groupBy, everyPeriod } = query;
  const sums = sumsOf(query.measures);
  const totalSums = sumsOf(query.totals ?? query.measures);
  const hasRows = groupBy.length > 0 && (periods !== null || !groupBy.some(isPeriodDimension));
  const areAllRead =
    hasRows &&
    ((everyPeriod && groupBy.length === 1) || (await source.hasFewGroups(groupBy, sides)));
  const mayRefuse = query.mayHaveManyGroups !== true;
  if (mayRefuse) await source.requireFewGroups({ dimensions: groupBy, sums }, sides);
  // A purchase with several coupons is in several groups.
  const addUp = areAllRead && !groupBy.includes('coupon');
  const follows = (name: SumName) => addUp && addsUp(name) && sums.includes(name);
  const others = totalSums.filter((name) => !follows(name));
  // Those of all purchases in a range usually follow from their number.
  const areCurrenciesRead =
    !isOfAnyTime(query.filters) && (await source.hasFewGroups(['currency'], [{}]));
  const ofAll = async (names: readonly SumName[]) =>
    names.length > 0 ? await readsOf(reading, [], names) : [];
  const lists = [
    areAllRead ? await readsOf(reading, groupBy, sums) : [],
    // Customers apart, because they are not those of the base and of the changes.
    await ofAll(others.filter(addsUp)),
    await ofAll(others.filter((name) => !addsUp(name))),
    areCurrenciesRead ? await readsOf(reading, ['currency'], sumsOf([])) : [],
  ];
  const [all = [], [total] = [], [customers] = [], ofCurrencies = []] = await readGroups(
    source,
    lists,
  );
  const totals = sides.map((_, side) => ({
    ...(addUp ? sumOfGroups(all, side) : {}),
    ...total?.sides[side],
    ...customers?.sides[side],
  }));
  // Both periods may have the same purchases.
  const count = totals.reduce(
    (most, { purchase_count = 0n }) => (purchase_count > most ? purchase_count : most),
    0n,
  );
  const currencies =
    count === 0n
      ? noCurrency
      : areCurrenciesRead
        ? currenciesOf(labelsOf(ofCurrencies))
        : ((await source.currencies(count)) ?? (await readCurrencies(reading)));
  if (areAllRead) {
    const orders = ordersOf(query, groupBy);
    return { groups: everyPeriod ? all : inOrder(all, orders), areAllRead, totals, currencies };
  }
  const groups = !hasRows || count === 0n ? [] : await readFirst(reading, sums);
  return { groups, areAllRead, totals, currencies };
}

/** The first groups, and one more if there are as many; with every period, all periods of these. */
async function readFirst(reading: Reading, sums: readonly SumName[]): Promise<readonly Group[]> {
  const { source, query } = reading;
  const { groupBy, everyPeriod, limit } = query;
  const ranked = everyPeriod ? groupBy.slice(0, 1) : groupBy;
  const rankedSums = everyPeriod ? sums.filter(addsUp) : sums;
  const reads = await readsOf(reading, ranked, rankedSums);
  const first = await readFirstGroups(source, reads, ordersOf(query, ranked), limit + 1);
  if (!everyPeriod) return first;
  const only = first.map(({ keys }) => keys[0] as string | null);
  const [groups = []] = await readGroups(source, [await readsOf(reading, groupBy, sums, only)]);
  return groups;
}

/** Only time bounds are filters. */
const isOfAnyTime = ({ createdSince: _, createdUntil: __, ...others }: PurchaseFilters): boolean =>
  isUnfiltered(others);

async function readCurrencies(reading: Reading): Promise<Currencies> {
  const reads = await readsOf(reading, ['currency'], sumsOf([]));
  // Null may be one of the three.
  return currenciesOf(labelsOf(await readFirstGroups(reading.source, reads, null, 3)));
}

const labelsOf = (groups: readonly Group[]): string[] =>
  groups.flatMap(({ keys }) => (keys[0] as string | null) ?? []);

/** A read of each side. */
async function readsOf(
  { source, query, sides, periods }: Reading,
  dimensions: readonly ReportDimension[],
  sums: readonly SumName[],
  only?: readonly (string | null)[],
): Promise<Read[]> {
  const { timeZone, weekStart } = query;
  const reads: Read[] = [];
  for (const [index, filters] of sides.entries()) {
    const periodRows = sides.length === 1 ? null : (index > 0 && periods?.compared) || ownRows;
    const side = { filters, dimensions, timeZone, weekStart, periodRows, sums, only };
    reads.push({ side: await source.side(side), sums });
  }
  return reads;
}

function ordersOf(
  { orderBy, thenBy = [] }: ResolvedQuery,
  dimensions: readonly ReportDimension[],
): Order[] {
  return [...(orderBy === null ? [] : [orderBy]), ...thenBy].map(({ by, isDescending }) => {
    const dimension = dimensions.indexOf(by as ReportDimension);
    return { by: dimension === -1 ? (by as ReportMeasure) : dimension, isDescending };
  });
}

/** The rows up to the limit, and whether there are more. */
async function rowsOf(
  { source, query, sides, periods }: Reading,
  { groups: read, areAllRead }: Pick<Result, 'groups' | 'areAllRead'>,
): Promise<{ readonly rows: readonly ReportRow[]; readonly isTruncated: boolean }> {
  const { groupBy, everyPeriod, limit } = query;
  const groups = withPeriodRows(read, periods);
  const cut = async (
    ordered: readonly Group[],
    known?: ReadonlyMap<number, bigint | undefined>,
  ) => ({
    rows: await named(query, ordered.slice(0, limit), sides.length, periods, known),
    isTruncated: ordered.length > limit,
  });
  if (!everyPeriod) return cut(groups);
  const filters = sides[0] as PurchaseFilters;
  const isSeries = groupBy.length > 1;
  const all = await everyPeriodOf(source, periods, groups, filters, { areAllRead });
  const fill = (label: readonly unknown[], rows: readonly Group[]): Group[] => {
    const known = new Map(rows.map((row) => [row.keys.at(-1), row]));
    return [...all.keys()].map(
      (period) => known.get(period) ?? { keys: [...label, period], sides: [] },
    );
  };
  if (!isSeries) return cut(inOrder(fill([], groups), ordersOf(query, groupBy)), all);
  const series = grouped(groups, ({ keys }) => keys[0]);
  const ranked = inOrder(
    [...series].map(([label, rows]) => ({ keys: [label], sides: [sumOfGroups(rows, 0)] })),
    ordersOf(query, groupBy.slice(0, 1)),
  );
  const rows = ranked.slice(0, limit).flatMap(({ keys }) => fill(keys, series.get(keys[0]) ?? []));
  return {
    rows: await named(query, rows, sides.length, periods, all),
    isTruncated: ranked.length > limit,
  };
}
