import { maxPeriods } from '../../../domain/period-limit.ts';
import { comparisons, stepMonths } from '../../../domain/purchase-report.ts';
import type { Bounds } from '../api/responses.ts';
import { addDays, countDays, dayAt, endOfDay, startOfDay } from './calendar.ts';

export const periodNames = [
  ...(['today', 'yesterday', 'lastmonth', 'last7', 'last30', 'last90'] as const),
  ...(['month', 'year', 'all', 'custom'] as const),
];
export type PeriodName = (typeof periodNames)[number];

/** The first and the last day. */
export type Days = { readonly from: string; readonly to: string };

/** Days, and the instant at which they end or, if they are not over, up to which they have data. */
export type Span = { readonly days: Days; readonly end: number };

export type Selection = Days & { readonly period: PeriodName; readonly timezone: string };

/** The days of a period; null for all time. */
export function daysOf(selection: Selection, now = Date.now()): Days | null {
  const today = dayAt(now, selection.timezone);
  const last = (count: number) => ({ from: addDays(today, 1 - count), to: today });
  switch (selection.period) {
    case 'today':
      return last(1);
    case 'yesterday': {
      const day = addDays(today, -1);
      return { from: day, to: day };
    }
    case 'lastmonth': {
      const to = addDays(`${today.slice(0, 8)}01`, -1);
      return { from: `${to.slice(0, 8)}01`, to };
    }
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
  return { days, end: isPresent(days, selection.timezone, now) ? now : end };
}

/** The bounds that a report states, as days; null for all time, and without bounds. */
export function spanOf(bounds: Bounds | null, timeZone: string): Span | null {
  const { since = null, until = null } = bounds ?? {};
  if (since === null || until === null) return null;
  // Bounds are inclusive to the microsecond.
  const end = Date.parse(until) + 1;
  const days = { from: dayAt(Date.parse(since), timeZone), to: dayAt(end - 1, timeZone) };
  return { days, end };
}

/** What a period is compared with. Each is a value of the parameter `compare_to`, or none. */
export const comparisonNames = [...comparisons, 'none'] as const;
export type Comparison = (typeof comparisonNames)[number];

/** The months by which a comparison moves local dates back; null if it compares periods by place. */
export const stepOf = (comparison: Comparison): number | null =>
  comparison === 'none' ? null : stepMonths(comparison);

export function defaultComparison(period: PeriodName): Comparison {
  if (period === 'month' || period === 'lastmonth') return 'previous_month';
  return period === 'year' ? 'previous_year' : 'previous_period';
}

/** Whether a period has begun and is not over. */
export function isPresent(days: Days, timeZone: string, now: number): boolean {
  const today = dayAt(now, timeZone);
  return days.from <= today && today <= days.to;
}

/** The parameters of days. */
export const boundsOf = (days: Days | null, timeZone: string) =>
  days === null
    ? {}
    : {
        created_since: startOfDay(days.from, timeZone).toISOString(),
        created_until: endOfDay(days.to, timeZone),
      };

const hoursOf: Readonly<Record<string, number>> = {
  ...{ hour: 1, day: 24, week: 168, month: 672, year: 8760 },
};

/** Whether the API returns a time series of the days by this interval. Weeks have no date in another month or year. */
export function isPossible(interval: string, days: Days | null, comparison: Comparison): boolean {
  const hours = hoursOf[interval];
  if (hours === undefined || days === null) return true;
  if (interval === 'week' && stepOf(comparison) !== null) return false;
  return (countDays(days.from, days.to) * 24) / hours < maxPeriods;
}

/** An interval that gives a readable number of periods. */
export function intervalFor(days: Days | null, comparison: Comparison): string {
  const count = days === null ? Number.POSITIVE_INFINITY : countDays(days.from, days.to);
  if (count <= 2) return 'hour';
  if (count <= 100) return 'day';
  if (count <= 400 && isPossible('week', days, comparison)) return 'week';
  return isPossible('month', days, comparison) ? 'month' : 'year';
}
