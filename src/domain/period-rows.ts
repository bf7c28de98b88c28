import type { Bounds } from './compared-period.ts';
import { earliestInstant } from './instant.ts';
import {
  intervalLengths,
  intervalMonths,
  isOfMonths,
  type Period,
  type PeriodCalendar,
  periodKeyAt,
  periodsBetween,
} from './period.ts';
import { type Comparison, stepMonths } from './purchase-report.ts';
import { zoneOffsets } from './time-zone.ts';

/**
 * Rows of a report by period. The number of a row is twice the key of its period. A period that only the
 * compared time has is a row of its own, even if the report's time has the same period: its number is one more.
 */
export const rowOf = (key: number): number => 2 * key;
export const keyOfRow = (row: number): number => Math.floor(row / 2);
export const isOfComparedAlone = (row: number): boolean => row % 2 !== 0;

/** The rows of periods up to the key `until` (exclusive; null: of all others): `shift` more than `rowOf`. */
export type RowShift = { readonly until: number | null; readonly shift: number };

/** How the purchases of a period find their rows. */
export type PeriodRows =
  | { readonly shifts: readonly RowShift[] }
  /** In the row that has their month some months later. */
  | { readonly monthsLater: number };

/** The rows of the report's own periods. */
export const ownRows: PeriodRows = { shifts: [{ until: null, shift: 0 }] };

/**
 * The rows of the compared periods. With `previous_month` and `previous_year`, a row is compared with the period
 * of its own local label a step earlier: 1 March with 1 March, 14:00 with 14:00. Otherwise, it is compared with the
 * period at the same place. Routes refuse weeks with a step, because they have no such label.
 */
export async function comparedRows(
  calendar: PeriodCalendar,
  comparison: Comparison,
  own: Bounds,
  compared: Bounds,
): Promise<PeriodRows> {
  const { interval } = calendar;
  const step = stepMonths(comparison);
  if (step !== null && isOfMonths(interval) && step % intervalMonths[interval] !== 0) {
    return { monthsLater: step };
  }
  const theirs = await periodsOf(calendar, compared);
  const rows =
    step === null
      ? await rowsByPlace(calendar, own, theirs)
      : await rowsByLabel(calendar, step, own, theirs);
  const shifts: { until: number | null; shift: number }[] = [];
  for (const { key } of theirs) {
    const shift = (rows.get(key) ?? rowOf(key) + 1) - rowOf(key);
    const last = shifts.at(-1);
    if (last?.shift === shift) continue;
    if (last !== undefined) last.until = key;
    shifts.push({ until: null, shift });
  }
  return shifts.length === 0 ? ownRows : { shifts };
}

const periodsOf = async (calendar: PeriodCalendar, { since, until }: Bounds): Promise<Period[]> =>
  periodsBetween(calendar, await periodKeyAt(calendar, since), await periodKeyAt(calendar, until));

/** Rows by the key of the compared period. */
type Rows = ReadonlyMap<number, number>;

async function rowsByPlace(
  calendar: PeriodCalendar,
  own: Bounds,
  theirs: readonly Period[],
): Promise<Rows> {
  const ours = await periodsOf(calendar, own);
  const missing = theirs.length - ours.length;
  const next = (ours.at(-1)?.key ?? (await periodKeyAt(calendar, own.since))) + 1;
  // One more, because calendars have skipped a day.
  const later = missing > 0 ? await periodsBetween(calendar, next, next + missing) : [];
  const all = [...ours, ...later];
  return new Map(theirs.map(({ key }, place) => [key, rowOf((all[place] as Period).key)]));
}

async function rowsByLabel(
  calendar: PeriodCalendar,
  step: number,
  own: Bounds,
  theirs: readonly Period[],
): Promise<Rows> {
  const keys = new Map(
    (await labelsOf(calendar, theirs)).map((label, index) => [textOf(label), theirs[index]?.key]),
  );
  const ours = await periodsOf(calendar, own);
  const rows = new Map<number, number>();
  for (const [index, label] of (await labelsOf(calendar, ours)).entries()) {
    const earlier = earlierLabel(calendar, label, step);
    const key = earlier === null ? undefined : keys.get(textOf(earlier));
    if (key !== undefined) rows.set(key, rowOf((ours[index] as Period).key));
  }
  return rows;
}

/** The local date or hour of a period, as a number, and which one it is of several: clocks repeat hours. */
type Label = { readonly local: number; readonly repetition: number };

const textOf = ({ local, repetition }: Label): string => `${local} ${repetition}`;

/** Other periods than hours are numbers of local dates, months or years already. */
async function labelsOf(
  { interval, timeZone }: PeriodCalendar,
  periods: readonly Period[],
): Promise<Label[]> {
  const [first, last] = [periods[0], periods.at(-1)];
  if (interval !== 'hour' || first === undefined || last === undefined) {
    return periods.map(({ key }) => ({ local: key, repetition: 0 }));
  }
  const offsets =
    timeZone === undefined ? [] : await zoneOffsets(timeZone, first.startsAt, last.startsAt);
  let [local, repetition] = [-1, 0];
  return periods.map(({ startsAt }) => {
    const offset = offsets.find(({ until }) => until === null || startsAt < until)?.offset ?? 0n;
    const hour = Number((startsAt + offset - earliestInstant) / intervalLengths.hour);
    repetition = hour === local ? repetition + 1 : 0;
    local = hour;
    return { local, repetition };
  });
}

/** Null if there is no such date. */
function earlierLabel({ interval }: PeriodCalendar, label: Label, step: number): Label | null {
  const { local } = label;
  if (isOfMonths(interval)) return { ...label, local: local - step / intervalMonths[interval] };
  const hours = interval === 'hour' ? 24 : 1;
  const day = dayBefore(Math.floor(local / hours), step);
  return day === null ? null : { ...label, local: day * hours + (local % hours) };
}

/** Days count from 0001-01-01. */
function dayBefore(day: number, months: number): number | null {
  const dayMs = 86_400_000;
  const first = Number(earliestInstant / 1000n);
  const date = new Date(first + day * dayMs);
  const ofMonth = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() - months);
  return date.getUTCDate() === ofMonth ? (date.getTime() - first) / dayMs : null;
}
