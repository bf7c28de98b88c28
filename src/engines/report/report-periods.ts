import {
  comparedRows,
  isOfComparedAlone,
  keyOfRow,
  type PeriodRows,
  rowOf,
} from '../../domain/compared-periods.ts';
import type { Bounds } from '../../domain/comparison.ts';
import {
  type PeriodCalendar,
  periodKeyAt,
  periodsBetween,
  periodsOfKeys,
} from '../../domain/period.ts';
import { maxPeriods } from '../../domain/period-limit.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import {
  type DimensionValue,
  isPeriodDimension,
  type PurchaseReportQuery,
  type ReportDimension,
  type ReportMeasure,
  type ReportRow,
} from '../../domain/purchase-report.ts';
import { rangeOf } from '../time-series.ts';
import type { ReportReader } from './report-reader.ts';

/** The periods of a report with a dimension of time. */
export type Periods = {
  readonly calendar: PeriodCalendar;
  /** The position of the dimension. */
  readonly index: number;
  /** Null without a comparison. */
  readonly compared: PeriodRows | null;
};

/** Null without a dimension of time, and without purchases. */
export async function periodsOf(
  reader: ReportReader,
  { groupBy, timeZone, weekStart, compareTo }: PurchaseReportQuery,
  sides: readonly PurchaseFilters[],
): Promise<Periods | null> {
  const index = groupBy.findIndex(isPeriodDimension);
  const interval = groupBy[index];
  const [current, compared] = sides as [PurchaseFilters, PurchaseFilters?];
  if (interval === undefined || !isPeriodDimension(interval)) return null;
  const calendar = { interval, timeZone, weekStart };
  if (!(await areFew(reader, calendar, current))) return null;
  const isCompared = compareTo !== undefined && compared !== undefined;
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

/** A row whose period is the number of a row (domain/compared-periods.ts). */
export type CountedRow = Omit<ReportRow, 'keys'> & { readonly keys: readonly unknown[] };

export const isOfPeriodsAlone = ({ groupBy }: PurchaseReportQuery): boolean =>
  groupBy.length === 1 && isPeriodDimension(groupBy[0] as string);

/** The rows with those of all other periods of the range, in order. */
export async function everyPeriod(
  { measures, orderBy }: PurchaseReportQuery,
  rows: readonly CountedRow[],
  periods: Periods | null,
  { createdSince, createdUntil }: PurchaseFilters,
): Promise<CountedRow[]> {
  if (periods === null) return [];
  const { calendar, compared } = periods;
  const numbers = rows.map(({ keys }) => Number(keys[0]));
  const keys = numbers.filter((row) => !isOfComparedAlone(row)).map(keyOfRow);
  if (createdSince !== undefined) keys.push(await periodKeyAt(calendar, createdSince));
  if (createdUntil !== undefined) keys.push(await periodKeyAt(calendar, createdUntil));
  if (rows.length === 0 && keys.length < 2) return [];
  const zeros = measures.map(() => 0n);
  const all = new Map<number, CountedRow>();
  for (const { key } of await periodsBetween(calendar, Math.min(...keys), Math.max(...keys))) {
    const row = rowOf(key);
    all.set(row, { keys: [row], values: zeros, compared: compared === null ? null : zeros });
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
export async function named(
  { groupBy }: PurchaseReportQuery,
  rows: readonly CountedRow[],
  periods: Periods | null,
): Promise<ReportRow[]> {
  const beginnings = new Map<number, bigint>();
  if (periods !== null && rows.length > 0) {
    const { calendar, index } = periods;
    const keys = rows.map(({ keys }) => keyOfRow(Number(keys[index])));
    for (const { key, startsAt } of await periodsOfKeys(calendar, [...new Set(keys)])) {
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
  return rows.map((row) => ({ ...row, keys: row.keys.map(shownOf) }));
}
