import type { Current } from '../../../purchase-store/format/current.ts';
import { organizationWatermark } from '../../../purchase-store/ticks/organization-watermark.ts';
import type { TickFile } from '../../../purchase-store/ticks/published-tick.ts';

/** The instant that responses state, and its tick. Ticks give the order: Postgres's clock may go back. */
export type TickInstant = { readonly tick: number; readonly asOf: bigint };

export const later = (one: TickInstant, other: TickInstant): TickInstant =>
  one.tick > other.tick || (one.tick === other.tick && one.asOf > other.asOf) ? one : other;

export class ResponseInstant {
  readonly #organizationId: bigint;
  /** The source and history of the files that were served last. */
  #served: Pick<Current, 'source' | 'fingerprint'> | null = null;
  #instant: TickInstant = { tick: 0, asOf: 0n };
  /** How often the instant went back. It is part of a version's name: cached responses have instants. */
  clockSteps = 0;

  constructor(organizationId: bigint) {
    this.#organizationId = organizationId;
  }

  /** The instant of CURRENT and a tick. It is never of an earlier tick within one history of the database. */
  advance(current: Current, tick: TickFile | null): TickInstant {
    const { asOf } = organizationWatermark(this.#organizationId, current, tick);
    const instant = { tick: Math.max(current.tick, tick?.tick ?? 0), asOf };
    const served = this.#served;
    const isSameHistory =
      served?.source === current.source && served.fingerprint === current.fingerprint;
    this.#served = current;
    const before = this.#instant;
    this.#instant = isSameHistory ? later(before, instant) : instant;
    if (this.#instant.asOf < before.asOf) this.clockSteps += 1;
    return this.#instant;
  }
}
