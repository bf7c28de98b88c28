import {
  type Exceptions,
  type PublishedTick,
  readBootId,
} from '../../src/purchase-store/ticks/published-tick.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import type { Watermark } from '../capture/watermark.ts';
import type { Organizations } from '../organization.ts';
import type { Store } from './store.ts';

export type Publication = ReturnType<typeof createPublication>;

/** Where a worker begins. */
type PublicationStart = {
  readonly watermark: Watermark;
  /** The greatest number of any tick in the folder. */
  readonly tick: number;
  readonly asOf: bigint;
  /** The last tick of this shard that is known to be on the disk; null if there is none. */
  readonly synced: PublishedTick | null;
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
  let published: PublishedTick = { tick, ...fieldsOf(watermark), asOf, exceptions: {} };
  // No batch is later than CURRENT then.
  let synced = start.synced ?? { ...published, tick: 0 };

  return {
    /** The snapshot whose later changes the next tick reads. */
    get watermark() {
      return watermark;
    },
    get tick() {
      return tick;
    },
    /** The instant that it shows. */
    get asOf() {
      return asOf;
    },
    /** What readers see of organizations that follow: `watermark`, with the instant of the tick. */
    get shown(): Watermark {
      return { ...watermark, asOf };
    },
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
     * Publishes the next tick. Without `nextAsOf`, its instant is that of a new watermark, and stays the
     * same with the present one. It is earlier than the last one if Postgres's clock went back.
     */
    async publish(
      moved: Watermark,
      nextAsOf: bigint = moved === watermark ? asOf : moved.asOf,
    ): Promise<void> {
      const exceptions = shownBeside(organizations, nextAsOf, nextAsOf === asOf);
      const next: PublishedTick = {
        tick: tick + 1,
        ...fieldsOf(moved),
        asOf: nextAsOf,
        // The store writes each object once.
        exceptions: isSame(published.exceptions, exceptions)
          ? published.exceptions
          : Object.fromEntries([...exceptions].map(([id, shown]) => [String(id), fieldsOf(shown)])),
      };
      const { fingerprint, database } = moved;
      await store.publish({ shard, ...next, fingerprint, database, synced, boot });
      showTick(organizations, exceptions);
      watermark = moved;
      published = next;
      ({ tick, asOf } = next);
    },
    /** Notes that the batches of a published tick are on the disk. Call `publish` afterwards. */
    noteSynced(onDisk: PublishedTick): void {
      synced = onDisk;
    },
  };
}

const fieldsOf = ({ asOf, snapshot, token }: Watermark) => ({ asOf, snapshot, token });

function isSame(published: Exceptions, shownById: ReadonlyMap<bigint, Watermark>): boolean {
  if (Object.keys(published).length !== shownById.size) return false;
  for (const [id, { asOf, snapshot, token }] of shownById) {
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
 * What organizations show that do not show a tick of the instant `asOf`, by id. A new instant is later
 * than all that organizations showed when they joined. One that is beyond it is of a clock that has
 * gone back since.
 */
function shownBeside(
  organizations: Organizations,
  asOf: bigint,
  isSameInstant: boolean,
): Map<bigint, Watermark> {
  const shownById = new Map<bigint, Watermark>();
  for (const { id, phase, shown } of organizations.values()) {
    const isBeyond = shown !== null && shown.asOf > asOf;
    if (phase === 'following') {
      if (isBeyond && isSameInstant) shownById.set(id, shown);
    } else if (isBeyond && !isSameInstant) shownById.set(id, { ...shown, asOf });
    else shownById.set(id, shown ?? watermarkOfCurrent);
  }
  return shownById;
}

/** The organizations that follow, except those of `shownById`, show a tick from now on. */
function showTick(organizations: Organizations, shownById: ReadonlyMap<bigint, Watermark>): void {
  for (const organization of organizations.values()) {
    if (organization.phase === 'following' && !shownById.has(organization.id)) {
      organization.shown = null;
    }
  }
}
