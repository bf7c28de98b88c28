import { addDays, dayAt, startOfDay } from './calendar.ts';
import type { Span } from './period.ts';

const hourMs = 3_600_000;

/** A period of a time series, as far as it lies within the selected time. */
export type Interval = {
  readonly start: number;
  readonly end: number;
  /** Whether the interval goes on after `end`. */
  readonly isCut: boolean;
};

/** When the hour, day, week or month that begins at an instant ends. */
function naturalEnd(start: number, name: string, timeZone: string): number {
  if (name === 'hour') return start + hourMs;
  const day = dayAt(start, timeZone);
  if (name === 'day') return startOfDay(addDays(day, 1), timeZone).getTime();
  if (name === 'week') return startOfDay(addDays(day, 7), timeZone).getTime();
  const inNextMonth = addDays(`${day.slice(0, 8)}01`, 31);
  return startOfDay(`${inNextMonth.slice(0, 8)}01`, timeZone).getTime();
}

export function intervalAt(
  startsAt: string,
  { interval, timezone }: { readonly interval: string; readonly timezone: string },
  span: Span | null,
  now: number,
): Interval {
  const first = new Date(startsAt).getTime();
  const natural = naturalEnd(first, interval, timezone);
  const since = span === null ? first : startOfDay(span.days.from, timezone).getTime();
  const end = Math.min(natural, span === null ? Math.max(now, first) : span.end);
  return { start: Math.max(first, since), end, isCut: end < natural };
}
