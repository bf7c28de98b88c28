import type { Extent } from './labels.ts';

/** Of the rows that a page has: how many the narrowest window is meant to hold. */
const narrowestHolds = 8;
const widening = 8n;
/** What takes DuckDB about as long as less does. */
const quicklyScanned = 65_536;

/**
 * Where windows of time begin that end at `until`, each wider than the one before it;
 * the last is followed by all that is older, which begins at `since`. They are meant to
 * hold so many purchases as if those came evenly: a wrong guess costs another look,
 * never a purchase. Instants are microseconds since 1970.
 */
export function windowsBetween(
  since: bigint,
  until: bigint,
  { purchases, first, last }: Omit<Extent, 'currency'>,
  pageSize: number,
): bigint[] {
  const microsecondsPerPurchase = Number(last - first) / Math.max(1, purchases);
  const lengthOf = (held: number) => BigInt(Math.ceil(held * microsecondsPerPurchase)) + 1n;
  const leastWider = lengthOf(quicklyScanned);
  const windows: bigint[] = [];
  let length = lengthOf(narrowestHolds * pageSize);
  for (let begin = until - length; begin > since; begin = until - length) {
    windows.push(begin);
    length *= widening;
    if (length < leastWider) length = leastWider;
  }
  return windows;
}
