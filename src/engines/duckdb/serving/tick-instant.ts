import type { Current } from '../../../purchase-store/format/current.ts';
import { organizationWatermark } from '../../../purchase-store/ticks/published.ts';
import type { TickFile } from '../../../purchase-store/ticks/published-tick.ts';

/** The instant that responses state, and its tick. Ticks give the order: Postgres's clock may go back. */
export type TickInstant = { readonly tick: number; readonly asOf: bigint };

export const later = (one: TickInstant, other: TickInstant): TickInstant =>
  one.tick > other.tick || (one.tick === other.tick && one.asOf > other.asOf) ? one : other;

/** The instant of the files of CURRENT with all batches up to a tick. */
export const instantOf = (
  organizationId: bigint,
  current: Current,
  tick: TickFile | null,
): TickInstant => ({
  tick: Math.max(current.tick, tick?.tick ?? 0),
  asOf: organizationWatermark(organizationId, current, tick).asOf,
});
