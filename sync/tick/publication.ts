import {
  type Exceptions,
  type PublishedTick,
  readBootId,
  type SyncedTick,
} from '../../src/purchase-store/ticks/published-tick.ts';
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
  /** The last tick of this shard that is known to be on the disk; null if there is none. */
  readonly synced: SyncedTick | null;
};

/** The tick that a worker published last. */
export function createPublication(
  store: Store,
  shard: Shard,
  organizations: Organizations,
  start: PublicationStart,
) {
  const boot = readBootId();
  let { watermark, tick, asOf } = start;
  let mapped: MappedOrganizations | null = null;
  let polledAt = asOf;
  let published: PublishedTick = { tick, ...fieldsOf(watermark), asOf, exceptions: {} };
  // Without a synced tick, CURRENT covers all batches on the disk.
  let synced = start.synced ?? { ...published, tick: 0, logEnds: {} };

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
    get published() {
      return published;
    },
    /** The last tick that is known to be on the disk. */
    get synced() {
      return synced;
    },
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
      const next: PublishedTick = {
        tick: tick + 1,
        ...fieldsOf(moved),
        asOf: nextAsOf,
        // The store writes each object once.
        exceptions: isSame(published.exceptions, exceptions)
          ? published.exceptions
          : Object.fromEntries([...exceptions].map(([id, each]) => [String(id), fieldsOf(each)])),
      };
      const { fingerprint, database } = moved;
      await store.publish({ shard, ...next, fingerprint, database, polledAt, synced, boot });
      if (nextAsOf !== asOf) clearWatermarks(organizations);
      watermark = moved;
      mapped = nextMapped;
      published = next;
      ({ tick, asOf } = next);
    },
    /** Notes the instant of a poll, which the next tick states. */
    notePoll(instant: bigint): void {
      polledAt = instant;
    },
    /** Notes that the batches of a published tick are on the disk. Call `publish` afterwards. */
    noteSynced(onDisk: SyncedTick): void {
      synced = onDisk;
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
