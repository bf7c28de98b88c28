import { offsetReader } from '../../../domain/zone-offset.ts';

/** Days of a time zone. A day is text such as 2026-01-31. */

const dayMs = 86_400_000;

const offsetReaders = new Map<string, ReturnType<typeof offsetReader>>();

function offsetsOf(timeZone: string): ReturnType<typeof offsetReader> {
  const offsetAt = offsetReaders.get(timeZone) ?? offsetReader(timeZone);
  offsetReaders.set(timeZone, offsetAt);
  return offsetAt;
}

/** The local time of an instant, without a fraction of a second, as if it were UTC. */
const localTime = (instant: number, timeZone: string): number =>
  instant + offsetsOf(timeZone)(instant);

export const dayAt = (instant: number, timeZone: string): string =>
  new Date(localTime(instant, timeZone)).toISOString().slice(0, 10);

/** The local hour of an instant, such as 2026-01-31T14. */
export const hourAt = (instant: number, timeZone: string): string =>
  new Date(localTime(instant, timeZone)).toISOString().slice(0, 13);

/** The local time of an instant of the API, such as 2026-01-31 14:05:09. */
export const localText = (instant: string, timeZone: string): string =>
  new Date(localTime(Date.parse(instant), timeZone)).toISOString().slice(0, 19).replace('T', ' ');

const utcOf = (day: string): number => Date.parse(`${day}T00:00:00Z`);

/** Without years before 1000: while a year is typed, the control has 0002, 0020 and 0202. */
export const isDay = (text: string): boolean =>
  /^[1-9]\d{3}-\d\d-\d\d$/.test(text) && !Number.isNaN(utcOf(text)) && addDays(text, 0) === text;

export const addDays = (day: string, count: number): string =>
  new Date(utcOf(day) + count * dayMs).toISOString().slice(0, 10);

/** The same date some months earlier; null if that month has no such date. */
export function monthsBefore(day: string, months: number): string | null {
  const date = new Date(utcOf(day));
  const ofMonth = date.getUTCDate();
  date.setUTCMonth(date.getUTCMonth() - months);
  return date.getUTCDate() === ofMonth ? date.toISOString().slice(0, 10) : null;
}

/** From a day to another, both included. */
export const countDays = (from: string, to: string): number =>
  Math.round((utcOf(to) - utcOf(from)) / dayMs) + 1;

/** The first instant of a day, also if a change of clocks removes or repeats its midnight. */
export function startOfDay(day: string, timeZone: string): Date {
  const midnight = utcOf(day);
  const offsets = [midnight - dayMs, midnight + dayMs].map(offsetsOf(timeZone));
  const candidates = offsets.map((offset) => midnight - offset).sort((a, b) => a - b);
  const first = candidates.find((instant) => dayAt(instant, timeZone) === day);
  return new Date(first ?? midnight);
}

/** The last microsecond of a day: bounds of the API are inclusive. */
export function endOfDay(day: string, timeZone: string): string {
  const next = startOfDay(addDays(day, 1), timeZone).getTime();
  return new Date(next - 1).toISOString().replace('Z', '999Z');
}

export function isTimeZone(name: string): boolean {
  try {
    offsetsOf(name);
    return true;
  } catch {
    return false;
  }
}

export const browserTimeZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** `America/Sao_Paulo` is America/Sao Paulo. */
export const zoneName = (timeZone: string): string => timeZone.replaceAll('_', ' ');
