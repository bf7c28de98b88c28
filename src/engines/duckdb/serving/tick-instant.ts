import type { Published } from '../../../purchase-store/ticks/published.ts';

/** The instant that responses state, and its tick. Ticks give the order: Postgres's clock may go back. */
export type TickInstant = { readonly tick: number; readonly asOf: bigint };

export const later = (one: TickInstant, other: TickInstant): TickInstant =>
  one.tick > other.tick || (one.tick === other.tick && one.asOf > other.asOf) ? one : other;

/** The instant of the files of CURRENT with all batches up to a tick. */
export const tickInstantOf = ({ files, tick, instant }: Published): TickInstant => ({
  tick: Math.max(files.tick, tick),
  asOf: instant,
});
