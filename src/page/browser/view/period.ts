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
type Days = { readonly from: string; readonly to: string };

type Selection = Days & { readonly period: PeriodName; readonly timezone: string };

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

/** As many days, just before. */
export const daysBefore = ({ from, to }: Days): Days => ({
  from: addDays(from, -countDays(from, to)),
  to: addDays(from, -1),
});

export const boundsOf = (days: Days | null, timeZone: string) =>
  days === null
    ? {}
    : {
        created_since: startOfDay(days.from, timeZone).toISOString(),
        created_until: endOfDay(days.to, timeZone),
      };

/** An interval that gives a readable number of periods. */
export function intervalFor(days: Days | null): string {
  const count = days === null ? Number.POSITIVE_INFINITY : countDays(days.from, days.to);
  if (count <= 2) return 'hour';
  if (count <= 100) return 'day';
  return count <= 400 ? 'week' : 'month';
}
