import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { offsetReader } from './zone-offset.ts';

/**
 * Offsets of IANA time zones, from Intl of this process. Both engines compute local days with
 * these offsets: Postgres, DuckDB and Node ship different versions of the time zone database.
 */

/** An offset from UTC, and its end. Instants and offsets are microseconds. */
export type ZoneOffset = {
  /** East of UTC. */
  readonly offset: bigint;
  /** The first instant with another offset; null if there is none. */
  readonly until: bigint | null;
};

/** Years with local time. In other years, days are those of UTC. */
export const zonedYears = { first: 1900, last: 2099 } as const;

const week = 7 * 86_400_000;

/** The canonical name of a zone, from an alias in any case; null if no zone has the name. */
export function canonicalTimeZone(name: string): string | null {
  // Intl also accepts offsets such as +03:00, which have no daylight saving time.
  if (!/^[A-Za-z]/.test(name)) return null;
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    return null;
  }
}

/** The offsets of a zone between two instants (microseconds, inclusive), in the order of time. */
export async function zoneOffsets(zone: string, from: bigint, to: bigint): Promise<ZoneOffset[]> {
  const { first, last } = zonedYears;
  const [begin, end] = [yearOf(from), yearOf(to)];
  const changes: Transition[] = begin < first ? [{ at: from, offset: 0n }] : [];
  const add = (change: Transition) => {
    if (changes.at(-1)?.offset !== change.offset) changes.push(change);
  };
  for (const decade of decadesBetween(begin, end)) {
    for (const change of await transitionsIn(zone, decade)) add(change);
  }
  if (end > last) add({ at: startOf(last + 1), offset: 0n });
  const needed = changes.filter(({ at }, index) => {
    const until = changes[index + 1]?.at ?? null;
    // The first offset also holds up to a microsecond before its decade.
    return (index === 0 || at <= to) && (until === null || until > from);
  });
  return needed.map(({ offset }, index) => ({ offset, until: needed[index + 1]?.at ?? null }));
}

/** An offset from an instant on. */
type Transition = { readonly at: bigint; readonly offset: bigint };

/** The first years of the decades that overlap these years. */
function decadesBetween(begin: number, end: number): number[] {
  const { first, last } = zonedYears;
  const decades: number[] = [];
  const start = Math.max(first, Math.floor(begin / 10) * 10);
  for (let year = start; year <= Math.min(end, last); year += 10) decades.push(year);
  return decades;
}

/** By zone and decade. Intl has fewer than 500 zones, of 20 decades each. */
const transitions = new LRUCache<string, readonly Transition[]>({ max: 10_000 });

/** The last of the calls that wait for an iteration of the event loop. */
let lastIteration: Promise<void> = Promise.resolve();

/**
 * The first offset of a decade, and all transitions in it. Each iteration of the event loop computes
 * one decade, because 200 years of a zone take 20 ms.
 */
async function transitionsIn(zone: string, decade: number): Promise<readonly Transition[]> {
  const key = `${zone} ${decade}`;
  const cached = transitions.get(key);
  if (cached !== undefined) return cached;
  lastIteration = lastIteration.then(() => setImmediate());
  await lastIteration;
  const found = transitions.get(key) ?? findTransitions(zone, decade);
  transitions.set(key, found);
  return found;
}

function findTransitions(zone: string, decade: number): readonly Transition[] {
  const offsetAt = offsetReader(zone);
  const [begin, end] = [Date.UTC(decade, 0), Date.UTC(decade + 10, 0)];
  let offset = offsetAt(begin);
  const changes = [transitionAt(begin, offset)];
  // Every offset has lasted for at least a week.
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
    if (high < end) changes.push(transitionAt(high, next));
    offset = next;
  }
  return changes;
}

const transitionAt = (at: number, offset: number): Transition => ({
  at: BigInt(at) * 1000n,
  offset: BigInt(offset) * 1000n,
});

/** Rounded down, also before 1970: the last microsecond of 1899 is not of 1900. */
const yearOf = (instant: bigint): number =>
  new Date(Math.floor(Number(instant) / 1000)).getUTCFullYear();

export const startOf = (year: number): bigint => BigInt(Date.UTC(year, 0)) * 1000n;
