import { earliestInstant, latestInstant } from './instant.ts';
import { intervalLengths } from './period.ts';
import { type Comparison, stepMonths } from './purchase-report.ts';
import { startOf, type ZoneOffset, zonedYears, zoneOffsets } from './time-zone.ts';

/** Inclusive bounds; microseconds since 1970. */
export type Bounds = { readonly since: bigint; readonly until: bigint };

const { day } = intervalLengths;

const daysOfYear = 364n * day;

/**
 * The period that a report compares `period` with.
 *
 * - `previous_period`: a period that begins with a local day moves back by the number of local days that it
 *   touches: 1 to 20 November until 14:05 is compared with 12 to 31 October until 14:05. Any other one
 *   moves back by its length, so that the two touch and share no instant.
 * - `previous_month`, `previous_year`: both bounds move back by a calendar month or year of local time. A
 *   day that does not exist becomes the last one of its month.
 * - `previous_year_weekdays`: both bounds move back by 364 local days.
 */
export async function comparedPeriod(
  { since, until }: Bounds,
  comparison: Comparison,
  timeZone: string | undefined,
): Promise<Bounds> {
  const [localSince, localUntil] = [
    await localTime(timeZone, since),
    await localTime(timeZone, until),
  ];
  const firstDay = floorDay(localSince);
  // A change of clocks may go back to the day before, which begins no day.
  const beginsDay = firstDay > floorDay(await localTime(timeZone, since - 1n));
  if (comparison === 'previous_period' && !beginsDay) {
    const length = until - since + 1n;
    return clamp({ since: since - length, until: since - 1n });
  }
  const days = floorDay(localUntil) - firstDay + day;
  const step = stepMonths(comparison);
  const move = (local: bigint): bigint => {
    if (step !== null) return monthsBefore(local, step);
    return local - (comparison === 'previous_period' ? days : daysOfYear);
  };
  const instantOf = async (local: bigint, find: typeof earliestAt) =>
    isBeforeZoned(local) && !isBeforeZoned(since)
      ? local - (await offsetAt(timeZone, firstZoned))
      : find(timeZone, local);
  const movedSince = await instantOf(move(beginsDay ? firstDay : localSince), earliestAt);
  const movedUntil = await instantOf(move(localUntil), latestAt);
  // Inverted bounds may move to the last day of the same month. They have no instant between them there either.
  const isEmpty = since > until && movedSince <= movedUntil;
  return clamp({ since: movedSince, until: isEmpty ? movedSince - 1n : movedUntil });
}

/** The local time between both bounds in days, rounded up: 20 of 1 to 20 November until 14:05. */
export async function localDays(
  { since, until }: Bounds,
  timeZone: string | undefined,
): Promise<number> {
  if (since > until) return 0;
  const length = (await localTime(timeZone, until)) - (await localTime(timeZone, since)) + 1n;
  // Clocks that go back may show an earlier time at the end.
  return length <= 0n ? 1 : Number((length + day - 1n) / day);
}

/** Local time as microseconds: an instant and its offset. */
const localTime = async (timeZone: string | undefined, instant: bigint): Promise<bigint> =>
  instant + (await offsetAt(timeZone, instant));

async function offsetAt(timeZone: string | undefined, instant: bigint): Promise<bigint> {
  const [zone] = await offsetsOf(timeZone, instant, instant);
  return zone?.offset ?? 0n;
}

/** Earlier days are those of UTC, but a period of later ones is compared with days of its own zone. */
const firstZoned = startOf(zonedYears.first);
const isBeforeZoned = (time: bigint): boolean => time < firstZoned;

/** The first instant at which clocks show `local` or later. */
async function earliestAt(timeZone: string | undefined, local: bigint): Promise<bigint> {
  let begin = local - 2n * day;
  for (const { offset, until } of await offsetsOf(timeZone, begin, local + 2n * day)) {
    const instant = local - offset > begin ? local - offset : begin;
    if (until === null || instant < until) return instant;
    begin = until;
  }
  return local;
}

/** The last instant at which clocks show `local` or earlier. */
async function latestAt(timeZone: string | undefined, local: bigint): Promise<bigint> {
  let begin = local - 2n * day;
  let latest = begin;
  for (const { offset, until } of await offsetsOf(timeZone, begin, local + 2n * day)) {
    const instant = local - offset;
    if (instant >= begin) latest = until === null || instant < until ? instant : until - 1n;
    if (until !== null) begin = until;
  }
  return latest;
}

async function offsetsOf(
  timeZone: string | undefined,
  from: bigint,
  to: bigint,
): Promise<readonly ZoneOffset[]> {
  return timeZone === undefined ? [{ offset: 0n, until: null }] : zoneOffsets(timeZone, from, to);
}

const floorDay = (local: bigint): bigint => {
  const rest = local % day;
  return rest < 0n ? local - rest - day : local - rest;
};

function monthsBefore(local: bigint, months: number): bigint {
  const begin = floorDay(local);
  const date = new Date(Number(begin / 1000n));
  const ofMonth = date.getUTCDate();
  date.setUTCDate(1);
  date.setUTCMonth(date.getUTCMonth() - months);
  const lastOfMonth = new Date(date);
  lastOfMonth.setUTCMonth(lastOfMonth.getUTCMonth() + 1);
  lastOfMonth.setUTCDate(0);
  date.setUTCDate(Math.min(ofMonth, lastOfMonth.getUTCDate()));
  return BigInt(date.getTime()) * 1000n + (local - begin);
}

const clamp = ({ since, until }: Bounds): Bounds => ({
  since: withinYears(since),
  until: withinYears(until),
});

/** Inverted bounds may move to a later time. */
function withinYears(instant: bigint): bigint {
  if (instant < earliestInstant) return earliestInstant;
  return instant > latestInstant ? latestInstant : instant;
}
