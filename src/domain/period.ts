import { earliestInstant } from './instant.ts';
import { type ZoneOffset, zoneOffsets } from './time-zone.ts';

/**
 * Periods of local time. A period is identified by a key: how many of its kind have passed since
 * 0001-01-01, a Monday. Engines compute keys with the offsets of `periodOffsets`.
 */

export const intervals = ['hour', 'day', 'week', 'month', 'quarter', 'year'] as const;
export type Interval = (typeof intervals)[number];

const hour = 3_600_000_000n;
const day = 24n * hour;
/** In microseconds. */
export const intervalLengths = { hour, day, week: 7n * day } as const;
/** The number of months of intervals whose length differs. */
export const intervalMonths = { month: 1, quarter: 3, year: 12 } as const;

export const isOfMonths = (interval: Interval): interval is keyof typeof intervalMonths =>
  interval in intervalMonths;

/** The days with which weeks may begin. Each is as many days before Monday as its position says. */
export const weekStarts = ['monday', 'sunday', 'saturday'] as const;
export type WeekStart = (typeof weekStarts)[number];

/** Where periods begin, whatever their interval is. */
export type LocalCalendar = {
  /** The canonical name of a time zone; UTC if undefined. */
  readonly timeZone?: string | undefined;
  /** The day with which weeks begin; Monday if undefined. */
  readonly weekStart?: WeekStart | undefined;
};

export type PeriodCalendar = LocalCalendar & { readonly interval: Interval };

/** A period, and its first instant (microseconds since 1970). */
export type Period = { readonly key: number; readonly startsAt: bigint };

/** The keys of the first and the last period. */
export type PeriodRange = { readonly first: number; readonly last: number };

export class TooManyPeriodsError extends Error {
  override readonly name = 'TooManyPeriodsError';
  readonly count: number;
  readonly max: number;

  constructor(count: number, max: number) {
    super(`${count} periods`);
    this.count = count;
    this.max = max;
  }
}

/**
 * The offsets by which keys of periods are computed, between two instants (inclusive). Hours keep
 * only what an offset has beyond whole hours: the hour that clocks repeat is two periods. Weeks that
 * begin before Monday are those of clocks that are days ahead.
 */
export async function periodOffsets(
  { interval, timeZone, weekStart = 'monday' }: PeriodCalendar,
  from: bigint,
  to: bigint,
): Promise<ZoneOffset[]> {
  const ahead = interval === 'week' ? BigInt(weekStarts.indexOf(weekStart)) * day : 0n;
  if (timeZone === undefined) return [{ offset: ahead, until: null }];
  const offsets = await zoneOffsets(timeZone, from, to);
  if (interval === 'hour') {
    return offsets.map(({ offset, until }) => ({ offset: ((offset % hour) + hour) % hour, until }));
  }
  return offsets.map(({ offset, until }) => ({ offset: offset + ahead, until }));
}

/** False if a later instant is in an earlier period, because clocks go back over its end. */
export const arePeriodsInOrder = (interval: Interval, offsets: readonly ZoneOffset[]): boolean =>
  offsets.every(({ offset, until }, index) => {
    const next = offsets[index + 1];
    if (until === null || next === undefined) return true;
    const keyAt = (instant: bigint) => keyOf(interval, instant - earliestInstant);
    return keyAt(until - 1n + offset) <= keyAt(until + next.offset);
  });

/** The key of the period that an instant is in. */
export async function periodKeyAt(calendar: PeriodCalendar, instant: bigint): Promise<number> {
  const [zone] = await periodOffsets(calendar, instant, instant);
  return keyOf(calendar.interval, instant + (zone?.offset ?? 0n) - earliestInstant);
}

/** Throws TooManyPeriodsError if there are more than `max` from `first` to `last` (keys, inclusive). */
export function requireFewPeriods(first: number, last: number, max: number): void {
  if (last - first >= max) throw new TooManyPeriodsError(last - first + 1, max);
}

/** The first instant of the period after the one that an instant is in. */
export async function endOfPeriodAt(calendar: PeriodCalendar, instant: bigint): Promise<bigint> {
  const key = await periodKeyAt(calendar, instant);
  // Calendars have skipped a day.
  const [next] = await periodsBetween(calendar, key + 1, key + 2);
  return (next as Period).startsAt;
}

/**
 * The periods from `first` to `last` (keys, inclusive), without days that a calendar skipped.
 * `requireFewPeriods` bounds their number.
 */
export async function periodsBetween(
  calendar: PeriodCalendar,
  first: number,
  last: number,
): Promise<Period[]> {
  return periodsOfKeys(
    calendar,
    Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => first + index),
  );
}

/** The periods of some keys, in their order, without days that a calendar skipped. */
export async function periodsOfKeys(
  calendar: PeriodCalendar,
  keys: readonly number[],
): Promise<Period[]> {
  if (keys.length === 0) return [];
  const { interval } = calendar;
  const beginning = (key: number) => localStart(interval, key) + earliestInstant;
  let [least, greatest] = [keys[0] as number, keys[0] as number];
  for (const key of keys) [least, greatest] = [Math.min(least, key), Math.max(greatest, key)];
  const offsets = await periodOffsets(
    calendar,
    beginning(least) - 4n * day,
    beginning(greatest + 1) + 4n * day,
  );
  const periods: Period[] = [];
  for (const key of keys) {
    const local = beginning(key);
    let since: bigint | null = null;
    for (const { offset, until } of offsets) {
      const start = local - offset;
      const startsAt: bigint = since !== null && since > start ? since : start;
      since = until;
      if (until !== null && startsAt >= until) continue;
      if (keyOf(interval, startsAt + offset - earliestInstant) !== key) continue;
      // Weeks may begin before the year 1, which is the first that an instant can have.
      periods.push({ key, startsAt: startsAt < earliestInstant ? earliestInstant : startsAt });
      break;
    }
  }
  return periods;
}

/** The key at a local time, in microseconds since 0001-01-01. */
export function keyOf(interval: Interval, local: bigint): number {
  if (!isOfMonths(interval)) return Number(floorDivide(local, intervalLengths[interval]));
  const date = new Date(Number(floorDivide(local + earliestInstant, 1000n)));
  const months = (date.getUTCFullYear() - 1) * 12 + date.getUTCMonth();
  return Math.floor(months / intervalMonths[interval]);
}

function localStart(interval: Interval, key: number): bigint {
  if (!isOfMonths(interval)) return BigInt(key) * intervalLengths[interval];
  const months = key * intervalMonths[interval];
  const date = new Date(0);
  date.setUTCFullYear(1 + Math.floor(months / 12), months % 12, 1);
  return BigInt(date.getTime()) * 1000n - earliestInstant;
}

const floorDivide = (dividend: bigint, divisor: bigint): bigint => {
  const quotient = dividend / divisor;
  return dividend % divisor < 0n ? quotient - 1n : quotient;
};
