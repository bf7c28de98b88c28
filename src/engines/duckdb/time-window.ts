import type { Extent } from './labels.ts';

/** Of the rows that a page has: how many the window is meant to hold. */
const windowHolds = 8;

/**
 * Where a window of time begins that ends at `until` and is meant to hold some pages'
 * purchases, as if those came evenly: a wrong guess costs another look, never a purchase.
 * Instants are microseconds since 1970.
 */
export function narrowWindow(
  until: bigint,
  { purchases, first, last }: Omit<Extent, 'currency'>,
  pageSize: number,
): bigint {
  const microsecondsPerPurchase = Number(last - first) / Math.max(1, purchases);
  return until - BigInt(Math.ceil(windowHolds * pageSize * microsecondsPerPurchase)) - 1n;
}
