import type { Shard } from '../../src/purchase-store/shard.ts';
import { type PublishedTick, readBootId } from '../../src/purchase-store/tick-file.ts';
import type { Watermark } from '../capture/watermark.ts';
import { type Organizations, shownBeside, showTick } from './organizations.ts';
import type { Store } from './store.ts';

/** The tick that a worker published last. */
export type Publication = {
  /** The snapshot whose later changes the next tick reads. */
  readonly watermark: Watermark;
  /** The number of the published tick. */
  readonly tick: number;
  /** The instant that it shows. */
  readonly asOf: bigint;
  /** What readers see of organizations that follow: `watermark`, with the instant of the tick. */
  readonly shown: Watermark;
  /** The number of the next tick. Batches with it are not visible before it is published. */
  next(): number;
  /**
   * Publishes the next tick. Without `asOf`, its instant is that of a new `watermark`, and stays the
   * same with the present one. It is earlier than the last one if Postgres's clock went back.
   */
  publish(watermark: Watermark, asOf?: bigint): Promise<void>;
  /** What is published. */
  readonly published: PublishedTick;
  /** The last tick that is known to be on the disk. */
  readonly synced: PublishedTick;
  /** Notes that the batches of a published tick are on the disk. Call `publish` afterwards. */
  noteSynced(tick: PublishedTick): void;
};

/** Where a worker begins. */
type PublicationStart = {
  readonly watermark: Watermark;
  /** The greatest number of any tick in the folder. */
  readonly tick: number;
  readonly asOf: bigint;
  /** The last tick of this shard that is known to be on the disk; null if there is none. */
  readonly synced: PublishedTick | null;
};

export function createPublication(
  store: Store,
  shard: Shard,
  organizations: Organizations,
  start: PublicationStart,
): Publication {
  const boot = readBootId();
  let { watermark, tick, asOf } = start;
  let published: PublishedTick = { tick, ...fieldsOf(watermark), asOf, exceptions: {} };
  // No batch is later than CURRENT then.
  let synced = start.synced ?? { ...published, tick: 0 };

  return {
    get watermark() {
      return watermark;
    },
    get tick() {
      return tick;
    },
    get asOf() {
      return asOf;
    },
    get shown() {
      return { ...watermark, asOf };
    },
    get published() {
      return published;
    },
    get synced() {
      return synced;
    },
    next: () => tick + 1,
    async publish(moved, nextAsOf = moved === watermark ? asOf : moved.asOf) {
      const exceptions = shownBeside(organizations, nextAsOf, nextAsOf === asOf);
      const next: PublishedTick = {
        tick: tick + 1,
        ...fieldsOf(moved),
        asOf: nextAsOf,
        exceptions: Object.fromEntries(
          [...exceptions].map(([id, shown]) => [String(id), fieldsOf(shown)]),
        ),
      };
      const { fingerprint, database } = moved;
      await store.publish({ shard, ...next, fingerprint, database, synced, boot });
      showTick(organizations, exceptions);
      watermark = moved;
      published = next;
      ({ tick, asOf } = next);
    },
    noteSynced(onDisk) {
      synced = onDisk;
    },
  };
}

const fieldsOf = ({ asOf, snapshot, token }: Watermark) => ({ asOf, snapshot, token });
