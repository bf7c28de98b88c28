import type { WeekStart } from '../../../domain/period.ts';
import { weekStart } from '../language/language.ts';
import { addDays, countDays, dayAt, hourAt, monthsBefore, startOfDay } from './calendar.ts';
import type { Span } from './period.ts';

const hourMs = 3_600_000;

/** A period of a time series, as far as it lies within the selected time. */
export type Interval = {
  readonly start: number;
  readonly end: number;
  /** Whether the interval goes on after `end`. */
  readonly isCut: boolean;
  /** Whether the interval began before `start`, or goes on after `end`. */
  readonly isPartial: boolean;
};

/** When the hour, day, week, month or year that begins at an instant ends. */
function naturalEnd(start: number, name: string, timeZone: string): number {
  if (name === 'hour') return start + hourMs;
  const day = dayAt(start, timeZone);
  if (name === 'day') return startOfDay(addDays(day, 1), timeZone).getTime();
  if (name === 'week') return startOfDay(addDays(day, 7), timeZone).getTime();
  if (name === 'year')
    return startOfDay(`${Number(day.slice(0, 4)) + 1}-01-01`, timeZone).getTime();
  const inNextMonth = addDays(`${day.slice(0, 8)}01`, 31);
  return startOfDay(`${inNextMonth.slice(0, 8)}01`, timeZone).getTime();
}

/** Days with which weeks began. */
const beginsOfWeeks = {
  monday: '1970-01-05',
  sunday: '1970-01-04',
  saturday: '1970-01-03',
} as const satisfies Record<WeekStart, string>;

/** The first day of the week of a day. */
export const beginOfWeek = (day: string): string =>
  addDays(day, -((countDays(beginsOfWeeks[weekStart], day) - 1) % 7));

/** The first instant of the hour, day, week, month or year that a day begins in. */
function naturalStart(day: string, name: string, timeZone: string): number {
  const beginnings: Readonly<Record<string, string>> = {
    week: beginOfWeek(day),
    month: `${day.slice(0, 8)}01`,
    year: `${day.slice(0, 5)}01-01`,
  };
  return startOfDay(beginnings[name] ?? day, timeZone).getTime();
}

type Calendar = { readonly interval: string; readonly timezone: string };

/** The first instants of the periods of a span. */
export function startsOf({ days, end }: Span, { interval, timezone }: Calendar): string[] {
  const starts: string[] = [];
  let start = naturalStart(days.from, interval, timezone);
  while (start < end) {
    starts.push(new Date(start).toISOString());
    start = naturalEnd(start, interval, timezone);
  }
  return starts;
}

/**
 * The first instants of the periods that periods of a report are compared with: those of their local dates or hours
 * `step` months earlier, or without a step those at their places. Undefined for a period without one.
 */
export function comparedStarts(
  starts: readonly string[],
  span: Span,
  { interval, timezone }: Calendar,
  step: number | null,
): (string | undefined)[] {
  const compared = startsOf(span, { interval, timezone });
  if (step === null) return starts.map((_, place) => compared[place]);
  const labelAt = interval === 'hour' ? hourAt : dayAt;
  const labelOf = (start: string) => labelAt(Date.parse(start), timezone);
  // The first one of an hour that clocks repeat.
  const byLabel = new Map(compared.reverse().map((start) => [labelOf(start), start]));
  return starts.map((start) => {
    const label = labelOf(start);
    const day = monthsBefore(label.slice(0, 10), step);
    return day === null ? undefined : byLabel.get(day + label.slice(10));
  });
}

export function intervalAt(
  startsAt: string,
  { interval, timezone }: Calendar,
  span: Span | null,
  now: number,
): Interval {
  const first = new Date(startsAt).getTime();
  const natural = naturalEnd(first, interval, timezone);
  const since = span === null ? first : startOfDay(span.days.from, timezone).getTime();
  const end = Math.min(natural, span === null ? Math.max(now, first) : span.end);
  const isCut = end < natural;
  return { start: Math.max(first, since), end, isCut, isPartial: isCut || first < since };
}
