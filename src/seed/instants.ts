// An instant is a number here: whole microseconds since 1970, UTC. A double
// holds them exactly until the year 2255, and a typed array holds millions.

export const MICROS_PER_SECOND = 1_000_000;
export const MICROS_PER_MINUTE = 60 * MICROS_PER_SECOND;
export const MICROS_PER_HOUR = 60 * MICROS_PER_MINUTE;
export const MICROS_PER_DAY = 24 * MICROS_PER_HOUR;

/** No value: an instant that did not happen. */
export const NO_INSTANT = Number.NaN;

export function instantOf(date: Date): number {
  return date.getTime() * 1000;
}

const TWO_DIGITS = Array.from({ length: 100 }, (_, value) => String(value).padStart(2, '0'));
const dayTexts = new Map<number, string>();

/** Written for millions of calls: Date is asked once per day, not once per instant. */
export function instantText(instant: number): string {
  const day = Math.floor(instant / MICROS_PER_DAY);
  const inDay = instant - day * MICROS_PER_DAY;
  const second = Math.floor(inDay / MICROS_PER_SECOND);
  const micros = inDay - second * MICROS_PER_SECOND;
  const minute = Math.floor(second / 60);
  return `${dayText(day)} ${twoDigits(Math.floor(minute / 60))}:${twoDigits(minute % 60)}:${twoDigits(second % 60)}.${twoDigits(Math.floor(micros / 10_000))}${twoDigits(Math.floor(micros / 100) % 100)}${twoDigits(micros % 100)}+00`;
}

export function optionalInstantText(instant: number): string | null {
  return Number.isNaN(instant) ? null : instantText(instant);
}

function dayText(day: number): string {
  let text = dayTexts.get(day);
  if (text === undefined) {
    text = new Date((day * MICROS_PER_DAY) / 1000).toISOString().slice(0, 10);
    dayTexts.set(day, text);
  }
  return text;
}

function twoDigits(value: number): string {
  return TWO_DIGITS[value] as string;
}
