/** The change as a share of the value before. Null if there was none. */
export const changeBetween = (now: bigint, before: bigint): number | null =>
  before === 0n ? null : Number(now - before) / Math.abs(Number(before));

export const directionOf = (change: number): 'up' | 'down' | '' =>
  change === 0 ? '' : change > 0 ? 'up' : 'down';
