import type { Exceptions } from '../../src/purchase-store/ticks/published-tick.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { type MappedOrganizations, type Watermark, watermarkFor } from '../capture/watermark.ts';
import type { Organizations } from '../organization.ts';
import type { Store } from './store.ts';

export type Publication = ReturnType<typeof createPublication>;

/** The state from which a worker continues. */
type PublicationStart = {
  readonly watermark: Watermark;
  /** The greatest number of any tick in the folder. */
  readonly tick: number;
  readonly asOf: bigint;
};

/** The tick that a worker published last. */
export function createPublication(
  store: Store,
  shard: Shard,
  organizations: Organizations,
  start: PublicationStart,
) {
  let { watermark, tick, asOf } = start;
  let mapped: MappedOrganizations | null = null;
  let polledAt = asOf;
  let published: Exceptions = {};

  return {
    /** The snapshot whose later changes the next tick reads. */
    get watermark() {
      return watermark;
    },
    get tick() {
      return tick;
    },
    /** The instant of the published tick. */
    get asOf() {
      return asOf;
    },
    /** The watermark of an organization that follows: `watermark`, with the instant of the tick for it. */
    watermarkOf: (organizationId: bigint): Watermark =>
      watermarkFor({ ...watermark, asOf, mapped }, organizationId),
    /** The number of the next tick. Batches with it are not visible before it is published. */
    next: (): number => tick + 1,
    /**
     * Publishes the next tick. By default, its instant is the instant of a new watermark, or stays the same
     * if `moved` is the present watermark. If Postgres's clock went back, the instant is earlier than before.
     */
    async publish(
      moved: Watermark,
      nextAsOf: bigint = moved === watermark ? asOf : moved.asOf,
      nextMapped: MappedOrganizations | null = moved === watermark
        ? mapped
        : (moved.mapped ?? null),
    ): Promise<void> {
      const ofTick = { ...moved, asOf: nextAsOf, mapped: nextMapped };
      const exceptions = exceptionWatermarks(organizations, ofTick, nextAsOf === asOf);
      // The store writes each object once.
      const next = isSame(published, exceptions)
        ? published
        : Object.fromEntries([...exceptions].map(([id, each]) => [String(id), fieldsOf(each)]));
      await store.publish({
        shard,
        tick: tick + 1,
        ...fieldsOf(moved),
        asOf: nextAsOf,
        exceptions: next,
        fingerprint: moved.fingerprint,
        database: moved.database,
        polledAt,
      });
      if (nextAsOf !== asOf) clearWatermarks(organizations);
      watermark = moved;
      mapped = nextMapped;
      published = next;
      tick += 1;
      asOf = nextAsOf;
    },
    /** Notes the instant of a poll, which the next tick states. */
    notePoll(instant: bigint): void {
      polledAt = instant;
    },
  };
}

const fieldsOf = ({ asOf, snapshot, token }: Watermark) => ({ asOf, snapshot, token });

function isSame(published: Exceptions, exceptions: ReadonlyMap<bigint, Watermark>): boolean {
  if (Object.keys(published).length !== exceptions.size) return false;
  for (const [id, { asOf, snapshot, token }] of exceptions) {
    const before = published[String(id)];
    if (before?.asOf !== asOf || before.snapshot !== snapshot || before.token !== token)
      return false;
  }
  return true;
}

/** Exception of an organization whose files this worker could not read. Readers use the watermark of CURRENT. */
const watermarkOfCurrent: Watermark = {
  asOf: 0n,
  snapshot: '',
  token: '',
  fingerprint: '',
  database: '',
};

/**
 * Watermarks of organizations that a tick lists as exceptions, by id. Those that joined since the last new instant
 * show the instant of their join, and mapped ones the instant of their mapping. A later watermark of another
 * exception means that Postgres's clock went back.
 */
function exceptionWatermarks(
  organizations: Organizations,
  ofTick: Watermark,
  isSameInstant: boolean,
): Map<bigint, Watermark> {
  const { asOf } = ofTick;
  const exceptions = new Map<bigint, Watermark>();
  for (const { id, phase, watermark } of organizations.values()) {
    if (phase === 'following') {
      const own = (isSameInstant ? watermark : null) ?? watermarkFor(ofTick, id);
      if (own.asOf !== asOf) exceptions.set(id, own);
    } else if (watermark !== null && watermark.asOf > asOf && !isSameInstant) {
      exceptions.set(id, { ...watermark, asOf });
    } else exceptions.set(id, watermark ?? watermarkOfCurrent);
  }
  return exceptions;
}

/** Organizations that follow show the watermark of the tick from a new instant on. */
function clearWatermarks(organizations: Organizations): void {
  for (const organization of organizations.values()) {
    if (organization.phase === 'following') organization.watermark = null;
  }
}
