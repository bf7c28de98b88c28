import type { PeriodDimension } from '../../src/domain/purchase-report.ts';

/** Periods of local time from Intl alone, for zones whose offsets are multiples of 15 minutes. */

const minute = 60_000_000n;
const hour = 60n * minute;
const dayMs = 86_400_000;

export type LocalTime = {
  /** YYYY-MM-DD */
  readonly date: string;
  readonly hour: number;
  /** 1 (Monday) to 7. */
  readonly weekday: number;
};

const formats = new Map<string, Intl.DateTimeFormat>();

export function localTime(zone: string, instant: bigint): LocalTime {
  const format =
    formats.get(zone) ??
    new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short', timeStyle: 'medium' });
  formats.set(zone, format);
  const [date = '', time = ''] = format.format(Number(instant / 1000n)).split(' ');
  const weekday = new Date(`${date}T00:00:00Z`).getUTCDay();
  return { date, hour: Number(time.slice(0, 2)), weekday: weekday === 0 ? 7 : weekday };
}

/** The first instant of a local date, by bisection. */
function firstInstant(zone: string, date: string): bigint {
  const midnight = BigInt(Date.parse(`${date}T00:00:00Z`)) * 1000n;
  let [low, high] = [midnight - 16n * hour, midnight + 16n * hour];
  while (high - low > minute) {
    const middle = low + ((high - low) / minute / 2n) * minute;
    if (localTime(zone, middle).date < date) low = middle;
    else high = middle;
  }
  return high;
}

const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** The first local date of the period that has a date. */
function firstDate(dimension: PeriodDimension, { date, weekday }: LocalTime): string {
  const [year, month] = [date.slice(0, 4), Number(date.slice(5, 7))];
  const ofMonth = (number: number) => `${year}-${String(number).padStart(2, '0')}-01`;
  if (dimension === 'year') return ofMonth(1);
  if (dimension === 'quarter') return ofMonth(month - ((month - 1) % 3));
  if (dimension === 'month') return ofMonth(month);
  if (dimension === 'week') return dateOf(Date.parse(date) - (weekday - 1) * dayMs);
  return date;
}

/** The first instant of the period that an instant is in. */
export function periodAt(dimension: PeriodDimension, zone: string, instant: bigint): bigint {
  const local = localTime(zone, instant);
  if (dimension !== 'hour') return firstInstant(zone, firstDate(dimension, local));
  for (let start = instant - (instant % (15n * minute)); ; start -= 15n * minute) {
    if (localTime(zone, start - 1n).hour !== local.hour) return start;
    if (instant - start > hour) throw new Error('The zone repeats an hour here.');
  }
}

/** The first instant of the next period. */
function nextPeriod(dimension: PeriodDimension, zone: string, start: bigint): bigint {
  const days = { hour: 0, day: 1, week: 7, month: 31, quarter: 92, year: 366 }[dimension];
  if (dimension === 'hour') return start + hour;
  const date = Date.parse(localTime(zone, start).date) + days * dayMs;
  return periodAt(dimension, zone, firstInstant(zone, dateOf(date)));
}

/** The periods that two instants are in, and all between them. */
export function periodsBetween(
  dimension: PeriodDimension,
  zone: string,
  [from, to]: readonly [bigint, bigint],
): bigint[] {
  const periods = [periodAt(dimension, zone, from)];
  for (;;) {
    const next = nextPeriod(dimension, zone, periods.at(-1) as bigint);
    if (next > to) return periods;
    periods.push(next);
  }
}

/** The period `place` periods after that of an instant. */
export function periodAfter(
  dimension: PeriodDimension,
  zone: string,
  instant: bigint,
  place: number,
): bigint {
  let period = periodAt(dimension, zone, instant);
  for (let count = 0; count < place; count += 1) period = nextPeriod(dimension, zone, period);
  return period;
}
