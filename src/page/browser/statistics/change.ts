import type { Totals } from '../api/responses.ts';

/** The change as a share of the value before. Null if there was none. */
export const changeBetween = (now: bigint, before: bigint): number | null =>
  before === 0n ? null : Number(now - before) / Math.abs(Number(before));

export const directionOf = (change: number): 'up' | 'down' | '' =>
  change === 0 ? '' : change > 0 ? 'up' : 'down';

/** Periods without purchases have no currency. */
export function haveOneCurrency(...periods: readonly Totals[]): boolean {
  const filled = periods.filter(({ purchase_count: count }) => BigInt(count) > 0n);
  const isMixed = filled.some(({ mixed_currencies: isMixed }) => isMixed);
  return !isMixed && new Set(filled.map(({ currency }) => currency)).size <= 1;
}
