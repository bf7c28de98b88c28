import type { Tick } from '../../src/purchase-store/ticks/published-tick.ts';
import type { Records } from '../capture/changed-purchases.ts';
import { databaseOf, type Watermark } from '../capture/watermark.ts';

/** What a store has published of an organization. */
export type Stored = {
  /** The organization and its database. */
  readonly source: string;
  /** The watermark, until a later tick includes the organization. */
  readonly watermark: Watermark;
  /** The tick that was published last when this was written. Later ticks include the organization. */
  readonly tick: number;
};

/** Converts the fields of CURRENT, or of a load in ClickHouse. */
export function storedFrom({
  source,
  tick,
  ...watermark
}: Pick<Stored, 'source' | 'tick'> & Omit<Watermark, 'database'>): Stored {
  const { asOf, snapshot, token, fingerprint } = watermark;
  const database = databaseOf(source);
  return { source, tick, watermark: { asOf, snapshot, token, fingerprint, database } };
}

/** The size of what is published. */
export type StoredSize = {
  /** Purchases at the last load or compaction. */
  readonly purchases: number;
  /** Changes since the last load or compaction. */
  readonly changes: number;
  readonly changeBytes: number;
  /** Changes that a reader must replay; undefined if the store saves no deltas. */
  readonly unsavedChanges?: number;
};

/** Runs work while no tick and no other publication runs. */
export type Exclusively = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** Where a worker publishes the organizations of its shard: files, or ClickHouse. */
export type Store = {
  /** The last ticks that all workers published. A worker that starts calls it first. */
  readTicks(): Promise<readonly Tick[]>;
  /**
   * Makes an organization ready for `append`: removes batches of ticks later than `published`, which
   * nothing has read. Rejects if what is published is damaged.
   */
  recover(organizationId: bigint, published: number): Promise<void>;
  /**
   * What `recover` or a build found or published last, also if it is damaged; null if nothing is
   * published, or in another layout.
   */
  storedOf(organizationId: bigint): Stored | null;
  /**
   * Appends a batch of the tick to each organization. Nothing is visible before the tick is published.
   * Returns the failures by organization; nothing of these is appended.
   */
  append(
    tick: number,
    changes: ReadonlyMap<bigint, Records>,
  ): Promise<ReadonlyMap<bigint, unknown>>;
  /** Publishes a tick for all of its organizations at once. */
  publish(tick: Tick): Promise<void>;
  /**
   * Returns the snapshot of a published tick once a crash of the machine loses nothing of it.
   * `publishAgain` publishes the next tick, with the same watermark.
   */
  sync(exclusively: Exclusively, publishAgain: () => Promise<void>): Promise<string>;
  /** Whether CURRENT names this file, or this load of ClickHouse is published. */
  isPublished(organizationId: bigint, name: string): boolean;
  sizeOf(organizationId: bigint): StoredSize | null;
  /** Removes a deleted organization. */
  remove(organizationId: bigint): Promise<void>;
  /** Removes unused data, such as organizations that were deleted while no worker ran. */
  cleanUp(
    isInUse: (organizationId: bigint) => boolean,
    isBuilding: (organizationId: bigint) => boolean,
  ): Promise<void>;
  close(): Promise<void>;
};

/** The changes between what is published and what will replace it, for the change feed. */
export type ChangeGap = {
  /** The snapshot whose later changes are missing; null if all changes since the published watermark are. */
  readonly until: Watermark | null;
  /** No change is missing. Otherwise the feed begins anew. */
  isComplete: boolean;
  append(records: Records): void;
};

/** What a build has prepared beside what is published. */
export type Prepared = {
  readonly organizationId: bigint;
  /** The organization and its database, when the build began. */
  readonly source: string;
  /** The snapshot whose later changes are missing. */
  readonly since: Watermark;
  readonly gap: ChangeGap;
  /** Adds later changes. */
  append(records: Records): Promise<void>;
  /**
   * Replaces what was published before. The organization then has `watermark`, and ticks later than
   * `tick` include it.
   */
  publish(tick: number, watermark: Watermark): Promise<void>;
  /** Removes what was prepared. Does nothing after the publication. */
  discard(): Promise<void>;
};
