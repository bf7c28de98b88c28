import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/**
 * Time zones by their IANA names, as this process's Intl knows them. Whatever asks a
 * database for a local day does it with these offsets: Postgres, DuckDB and Node each
 * bring rules of their own, of different years, and would not agree.
 */

/** An offset from UTC, and when it ends. Instants and offsets are microseconds. */
export type ZoneOffset = {
  /** East of UTC. */
  readonly offset: bigint;
  /** The first instant with another offset; null: none. */
  readonly until: bigint | null;
};

/** Years whose local time is known; of all other instants the day is the one in UTC. */
export const zonedYears = { first: 1900, last: 2099 } as const;

const week = 7 * 86_400_000;

/** The zone's own name, for an alias and any case; null where no zone has the name. */
export function canonicalTimeZone(name: string): string | null {
  // Intl takes offsets such as +03:00 too, which say nothing of summer.
  if (!/^[A-Za-z]/.test(name)) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/**
 * The offsets that a zone has between two instants (microseconds, both included), in the
 * order of time; the first may be taken for all time before, the last for all after.
 */
export function zoneOffsets(zone: string, from: bigint, to: bigint): ZoneOffset[] {
  const { first, last } = zonedYears;
  const [begin, end] = [yearOf(from), yearOf(to)];
  const changes: Change[] = [{ at: null, offset: begin < first ? 0n : startOffset(zone, begin) }];
  const add = (change: Change) => {
    if (changes.at(-1)?.offset !== change.offset) changes.push(change);
  };
  for (const decade of decadesBetween(begin, end)) {
    for (const change of changesIn(zone, decade)) add(change);
  }
  if (end > last) add({ at: startOf(last + 1), offset: 0n });
  const needed = changes.filter(({ at }, index) => {
    const until = changes[index + 1]?.at ?? null;
    return (at === null || at <= to) && (until === null || until > from);
  });
  return needed.map(({ offset }, index) => ({ offset, until: needed[index + 1]?.at ?? null }));
}

/** The end of the queue for the event loop. */
let lastTurn: Promise<void> = Promise.resolve();

/**
 * Finds what `zoneOffsets` needs, one decade in each turn of the event loop, whoever asks:
 * 200 years of a zone take some 20 ms. Afterwards `zoneOffsets` returns at once.
 */
export async function loadZoneOffsets(zone: string, from: bigint, to: bigint): Promise<void> {
  for (const decade of decadesBetween(yearOf(from), yearOf(to))) {
    if (known.has(nameOf(zone, decade))) continue;
    lastTurn = lastTurn.then(() => setImmediate());
    await lastTurn;
    changesIn(zone, decade);
  }
}

/** From an instant on (null: ever since) there is an offset. */
type Change = { readonly at: bigint | null; readonly offset: bigint };

/** By zone and decade. All fit: Intl knows fewer than 500 zones, of 20 decades each. */
const known = new LRUCache<string, readonly Change[]>({ max: 10_000 });

const nameOf = (zone: string, decade: number): string => `${zone} ${decade}`;

/** The first years of the decades that are known and overlap the years. */
function decadesBetween(begin: number, end: number): number[] {
  const { first, last } = zonedYears;
  const decades: number[] = [];
  const start = Math.max(first, Math.floor(begin / 10) * 10);
  for (let year = start; year <= Math.min(end, last); year += 10) decades.push(year);
  return decades;
}

/** The offset that a decade begins with, and all changes in it. */
function changesIn(zone: string, decade: number): readonly Change[] {
  const name = nameOf(zone, decade);
  const found = known.get(name) ?? findChanges(zone, decade);
  known.set(name, found);
  return found;
}

const startOffset = (zone: string, year: number): bigint => {
  const [decade] = decadesBetween(year, year);
  return decade === undefined ? 0n : (changesIn(zone, decade)[0]?.offset ?? 0n);
};

function findChanges(zone: string, decade: number): readonly Change[] {
  const offsetAt = offsetReader(zone);
  const [begin, end] = [Date.UTC(decade, 0), Date.UTC(decade + 10, 0)];
  let offset = offsetAt(begin);
  const changes = [changeAt(begin, offset)];
  // No offset has lasted for less than a week.
  for (let before = begin; before < end; before += week) {
    const after = Math.min(before + week, end);
    const next = offsetAt(after);
    if (offset === next) continue;
    let [low, high] = [before, after];
    while (high - low > 1000) {
      const middle = low + Math.floor((high - low) / 2000) * 1000;
      if (offsetAt(middle) === offset) low = middle;
      else high = middle;
    }
    if (high < end) changes.push(changeAt(high, next));
    offset = next;
  }
  return changes;
}

const changeAt = (at: number, offset: number): Change => ({
  at: BigInt(at) * 1000n,
  offset: BigInt(offset) * 1000n,
});

/** Reads the zone's clock: its offset at a whole second, both milliseconds. */
function offsetReader(timeZone: string): (instant: number) => number {
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  });
  return (instant) => {
    const shown = clock.format(instant).match(/\d+/g)?.map(Number) as number[];
    const [month = 0, day = 0, year = 0, hour = 0, minute = 0, second = 0] = shown;
    return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
  };
}

const yearOf = (instant: bigint): number => new Date(Number(instant / 1000n)).getUTCFullYear();

const startOf = (year: number): bigint => BigInt(Date.UTC(year, 0)) * 1000n;
