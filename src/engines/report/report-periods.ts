import sql from 'sql-template-tag';
import type { Bounds } from '../../domain/compared-period.ts';
import {
  intervals,
  type PeriodCalendar,
  type PeriodRange,
  periodKeyAt,
  periodsBetween,
  periodsOfKeys,
  requireFewPeriods,
} from '../../domain/period.ts';
import { maxAutoPeriods, maxPeriods } from '../../domain/period-limit.ts';
import {
  comparedRows,
  isOfComparedAlone,
  keyOfRow,
  type PeriodRows,
  rowOf,
} from '../../domain/period-rows.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type DimensionValue,
  isPeriodDimension,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportRow,
} from '../../domain/purchase-report.ts';
import { type Group, measuresOf } from './groups.ts';
import type { ReportSource } from './source.ts';
import { readsStatement, sumsOf } from './statement.ts';

/** A query whose interval is known. */
export type ResolvedQuery = Omit<PurchaseReportQuery, 'groupBy'> & {
  readonly groupBy: readonly ReportDimension[];
  readonly everyPeriod: boolean;
};

/** Chooses the interval of `auto`. Only without both bounds, this reads the range of all matching purchases. */
export async function withInterval(
  source: ReportSource,
  query: PurchaseReportQuery,
): Promise<ResolvedQuery> {
  const groupBy: ReportDimension[] = [];
  for (const each of query.groupBy) {
    groupBy.push(each === 'auto' ? await intervalOf(source, query) : each);
  }
  const isPeriodAlone = groupBy.length === 1 && isPeriodDimension(groupBy[0] as string);
  return { ...query, groupBy, everyPeriod: query.everyPeriod ?? isPeriodAlone };
}

async function intervalOf(
  source: ReportSource,
  { timeZone, weekStart, filters }: PurchaseReportQuery,
) {
  const days = { interval: 'day', timeZone } as const;
  const isBounded = filters.createdSince !== undefined && filters.createdUntil !== undefined;
  const found = isBounded ? null : await source.range(days, filters);
  const instantOf = async (key: number | undefined) =>
    key === undefined ? undefined : (await periodsBetween(days, key, key + 1))[0]?.startsAt;
  const since = filters.createdSince ?? (await instantOf(found?.first)) ?? 0n;
  const until = filters.createdUntil ?? (await instantOf(found?.last)) ?? since;
  for (const interval of intervals) {
    const calendar = { interval, timeZone, weekStart };
    const count = (await periodKeyAt(calendar, until)) - (await periodKeyAt(calendar, since)) + 1;
    // The last day, of which only the beginning is known, has 24 hours or 25.
    if (count + (isBounded || interval !== 'hour' ? 0 : 24) <= maxAutoPeriods) return interval;
  }
  return 'year';
}

/** The periods of a report with a dimension of time. */
export type Periods = {
  readonly calendar: PeriodCalendar;
  /** The position of the dimension. */
  readonly index: number;
  /** Null without a comparison. */
  readonly compared: PeriodRows | null;
};

/** Null without a dimension of time, and without purchases. Rejects with TooManyPeriodsError. */
export async function periodsOf(
  source: ReportSource,
  query: ResolvedQuery,
  [current = {}, compared]: readonly PurchaseFilters[],
): Promise<Periods | null> {
  const { groupBy, timeZone, weekStart, compareTo, maxPeriods: max = maxPeriods } = query;
  const index = groupBy.findIndex(isPeriodDimension);
  const interval = groupBy[index];
  if (interval === undefined || !isPeriodDimension(interval)) return null;
  const calendar = { interval, timeZone, weekStart };
  const isCompared = compareTo !== undefined && compared !== undefined;
  const { createdSince, createdUntil } = current;
  const isInverted =
    createdSince !== undefined && createdUntil !== undefined && createdSince > createdUntil;
  // The compared period may still have purchases: neither of its bounds is before year 1.
  if (isInverted && (!isCompared || query.everyPeriod)) return null;
  if (!(await areFew(source, calendar, current, max))) return null;
  return {
    calendar,
    index,
    compared: isCompared
      ? await comparedRows(calendar, compareTo, boundsOf(current), boundsOf(compared))
      : null,
  };
}

/** Both bounds of a report with a comparison. */
const boundsOf = ({ createdSince = 0n, createdUntil = 0n }: PurchaseFilters): Bounds => ({
  since: createdSince,
  until: createdUntil,
});

/** False if no purchase can match. */
async function areFew(
  source: ReportSource,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
  max: number,
): Promise<boolean> {
  const isBounded = filters.createdSince !== undefined && filters.createdUntil !== undefined;
  const bounds = isBounded ? null : await source.bounds(filters);
  const { createdSince = bounds?.first, createdUntil = bounds?.last } = filters;
  if (createdSince === undefined || createdUntil === undefined) return false;
  const first = await periodKeyAt(calendar, createdSince);
  const last = await periodKeyAt(calendar, createdUntil);
  // The bounds may be wider than the matching purchases.
  if (last - first < max) return true;
  const exact = isBounded ? { first, last } : await exactRange(source, calendar, filters);
  if (exact !== null) requireFewPeriods(exact.first, exact.last, max);
  return exact !== null;
}

/** The periods from bound to bound, or those of all matching purchases; null if no purchase matches. */
async function exactRange(
  source: ReportSource,
  calendar: PeriodCalendar,
  { createdSince, createdUntil, ...filters }: PurchaseFilters,
): Promise<PeriodRange | null> {
  const found = await source.range(calendar, { ...filters, createdSince, createdUntil });
  if (found === null) return null;
  const keyAt = (instant: bigint | undefined) =>
    instant === undefined ? undefined : periodKeyAt(calendar, instant);
  return {
    first: (await keyAt(createdSince)) ?? found.first,
    last: (await keyAt(createdUntil)) ?? found.last,
  };
}

/** Groups whose periods are numbers of rows (domain/period-rows.ts). */
export const withPeriodRows = (
  groups: readonly Group[],
  periods: Periods | null,
): readonly Group[] =>
  periods === null
    ? groups
    : groups.map(({ keys, sides }) => {
        const key = Number(keys[periods.index]);
        return { keys: keys.with(periods.index, periods.compared ? key : rowOf(key)), sides };
      });

/**
 * The rows of all periods, in the order of time: from bound to bound, or those of all matching purchases. With their
 * first instants, if they are periods of the report's own time.
 */
export async function everyPeriodOf(
  source: ReportSource,
  periods: Periods | null,
  groups: readonly Group[],
  filters: PurchaseFilters,
  { areAllRead }: { readonly areAllRead: boolean },
): Promise<ReadonlyMap<number, bigint | undefined>> {
  if (periods === null) return new Map();
  const { calendar } = periods;
  const { createdSince, createdUntil } = filters;
  const numbers = groups.map(({ keys }) => Number(keys.at(-1)));
  const keys = numbers.filter((row) => !isOfComparedAlone(row)).map(keyOfRow);
  const isBounded = createdSince !== undefined && createdUntil !== undefined;
  const range = !areAllRead && !isBounded ? await source.range(calendar, filters) : null;
  if (range !== null) keys.push(range.first, range.last);
  if (createdSince !== undefined) keys.push(await periodKeyAt(calendar, createdSince));
  if (createdUntil !== undefined) keys.push(await periodKeyAt(calendar, createdUntil));
  if (numbers.length === 0 && keys.length < 2) return new Map();
  let [first, last] = [keys[0] as number, keys[0] as number];
  for (const key of keys) [first, last] = [Math.min(first, key), Math.max(last, key)];
  const all = await periodsBetween(calendar, first, last);
  const beginnings = new Map(all.map(({ key, startsAt }) => [rowOf(key), startsAt]));
  const rows = [...new Set([...beginnings.keys(), ...numbers])].sort((one, other) => one - other);
  return new Map(rows.map((row) => [row, beginnings.get(row)]));
}

/** Rows with the values of their dimensions. */
export async function named(
  { groupBy, measures }: ResolvedQuery,
  groups: readonly Group[],
  sides: number,
  periods: Periods | null,
  known: ReadonlyMap<number, bigint | undefined> = new Map(),
): Promise<ReportRow[]> {
  const beginnings = new Map<number, bigint>();
  if (periods !== null && groups.length > 0) {
    const { calendar, index } = periods;
    const missing = new Set<number>();
    for (const { keys } of groups) {
      const row = Number(keys[index]);
      const startsAt = known.get(row);
      if (startsAt === undefined) missing.add(keyOfRow(row));
      else beginnings.set(keyOfRow(row), startsAt);
    }
    for (const { key, startsAt } of await periodsOfKeys(calendar, [...missing])) {
      beginnings.set(key, startsAt);
    }
  }
  const shownOf = (key: unknown, index: number): DimensionValue => {
    const dimension = groupBy[index] as ReportDimension;
    if (isPeriodDimension(dimension)) return beginnings.get(keyOfRow(Number(key))) ?? null;
    if (dimension === 'customer_type') return Number(key) === 0 ? 'new' : 'returning';
    if (dimension === 'customer') return BigInt(key as bigint);
    if (dimension === 'weekday' || dimension === 'hour_of_day') return Number(key);
    return key as string | null;
  };
  return groups.map(({ keys, sides: [own = {}, compared = {}] }) => ({
    keys: keys.map(shownOf),
    values: measuresOf(measures, own),
    compared: sides === 1 ? null : measuresOf(measures, compared),
  }));
}

/** The first and the last period that a report by period has; for a `range` that an engine does not know otherwise. */
export async function rangeOfRows(
  { dialect, side: readSide, query }: Pick<ReportSource, 'dialect' | 'side' | 'query'>,
  calendar: PeriodCalendar,
  filters: PurchaseFilters,
): Promise<PeriodRange | null> {
  const sums = sumsOf([]);
  const dimensions = [calendar.interval];
  const side = await readSide({ ...calendar, filters, dimensions, sums, periodRows: null });
  if (side.parts.length === 0) return null;
  const [row = []] = await query(sql`
    select min(d0), max(d0), count(*) from (
      select d0 from (${readsStatement(dialect, [{ side, sums }])}) as part
      group by d0 having sum(purchase_count) > 0
    ) as period`);
  const [first, last, count] = row.map(Number) as [number, number, number];
  return count === 0 ? null : { first, last };
}
