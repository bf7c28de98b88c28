import { maxPeriods } from '../../../domain/period-limit.ts';
import { addDays, countDays, dayAt, endOfDay, startOfDay } from './calendar.ts';

export const periods = {
  last7: '7 days',
  last30: '30 days',
  last90: '90 days',
  month: 'This month',
  year: 'This year',
  all: 'All time',
  custom: 'Custom',
} as const;
export type PeriodName = keyof typeof periods;
export const periodNames = Object.keys(periods) as PeriodName[];

/** The first and the last day. */
export type Days = { readonly from: string; readonly to: string };

/** Days, and the instant at which they end or, if they have not ended, up to which they are compared. */
export type Span = { readonly days: Days; readonly end: number };

export type Selection = Days & { readonly period: PeriodName; readonly timezone: string };

/** The days of a period; null for all time. */
export function daysOf(selection: Selection, now = Date.now()): Days | null {
  const today = dayAt(now, selection.timezone);
  const last = (count: number) => ({ from: addDays(today, 1 - count), to: today });
  switch (selection.period) {
    case 'last7':
      return last(7);
    case 'last30':
      return last(30);
    case 'last90':
      return last(90);
    case 'month':
      return { from: `${today.slice(0, 8)}01`, to: today };
    case 'year':
      return { from: `${today.slice(0, 5)}01-01`, to: today };
    case 'custom': {
      const { from, to } = selection;
      return { from: from === '' ? to || today : from, to: to === '' ? today : to };
    }
    case 'all':
      return null;
  }
}

const endOf = (day: string, timeZone: string): number =>
  startOfDay(addDays(day, 1), timeZone).getTime();

/** The period as far as it has elapsed; null for all time. */
export function currentSpan(selection: Selection, now: number): Span | null {
  const days = daysOf(selection, now);
  if (days === null) return null;
  const end = endOf(days.to, selection.timezone);
  const isUnfinished = days.from <= dayAt(now, selection.timezone) && now < end;
  return { days, end: isUnfinished ? now : end };
}

/**
 * What the period is compared with: last month, last year, or as many days just before, up to the
 * same day and time of day.
 */
export function previousSpan(selection: Selection, now: number): Span | null {
  const current = currentSpan(selection, now);
  if (current === null) return null;
  const { timezone } = selection;
  const { days, end } = current;
  const lastDay = dayAt(end - 1, timezone);
  const before = daysBefore(selection.period, days, lastDay);
  const endOfBefore = endOf(before.to, timezone);
  // A month or February that is shorter is compared as a whole.
  const isShorter = before.isShorter || end === endOf(lastDay, timezone);
  const elapsed = end - startOfDay(lastDay, timezone).getTime();
  const sameTime = startOfDay(before.to, timezone).getTime() + elapsed;
  return {
    days: { from: before.from, to: before.to },
    end: isShorter ? endOfBefore : Math.min(endOfBefore, sameTime),
  };
}

/** The days before, up to the one that corresponds to `lastDay`. */
function daysBefore(
  period: PeriodName,
  { from, to }: Days,
  lastDay: string,
): Days & { readonly isShorter: boolean } {
  const latest = addDays(from, -1);
  if (period === 'year') {
    const year = latest.slice(0, 4);
    const isShorter = lastDay.endsWith('-02-29');
    const day = isShorter ? `${year}-02-28` : `${year}${lastDay.slice(4)}`;
    return { from: `${year}-01-01`, to: day, isShorter };
  }
  const first =
    period === 'month' ? `${latest.slice(0, 8)}01` : addDays(from, -countDays(from, to));
  const last = addDays(first, countDays(from, lastDay) - 1);
  const isShorter = last > latest;
  return { from: first, to: isShorter ? latest : last, isShorter };
}

/** The parameters of days; without those after `end`, if it is given. */
export const boundsOf = (days: Days | null, timeZone: string, end?: number) =>
  days === null
    ? {}
    : {
        created_since: startOfDay(days.from, timeZone).toISOString(),
        created_until:
          end === undefined
            ? endOfDay(days.to, timeZone)
            : new Date(end - 1).toISOString().replace('Z', '999Z'),
      };

const hoursOf: Readonly<Record<string, number>> = { hour: 1, day: 24, week: 168, month: 672 };

/** Whether the API returns a time series of the days by this interval. */
export function isPossible(interval: string, days: Days | null): boolean {
  const hours = hoursOf[interval];
  if (hours === undefined || days === null) return true;
  return (countDays(days.from, days.to) * 24) / hours < maxPeriods;
}

/** An interval that gives a readable number of periods. */
export function intervalFor(days: Days | null): string {
  const count = days === null ? Number.POSITIVE_INFINITY : countDays(days.from, days.to);
  if (count <= 2) return 'hour';
  if (count <= 100) return 'day';
  return count <= 400 ? 'week' : 'month';
}
