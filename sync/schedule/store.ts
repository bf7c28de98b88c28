import type { Logger } from 'pino';
import type { Generation } from '../capture/watermark.ts';
import type { WorkerObserver } from '../metrics/observer.ts';
import type { Shard } from '../shard.ts';
import type { Replicator } from './replicator.ts';

export type BuildLimits = {
  /** Rows that a load reads in one transaction; smaller in tests. */
  readonly loadChunkRows?: number;
  /** Rows of changes that a base may have, if they are more than 2 % of it; smaller in tests. */
  readonly maxDeltaRows?: number;
};

export type ReplicatorOptions = BuildLimits & {
  readonly organizationId: bigint;
  readonly log: Logger;
  readonly observer: WorkerObserver;
};

/** The store that a worker publishes in: DuckDB files, or ClickHouse. */
export type Store = {
  createReplicator(options: ReplicatorOptions): Replicator;
  /** Publishes that these generations show all changes committed before `asOf`. */
  confirm(asOf: bigint, generations: ReadonlyMap<bigint, Generation>): void;
  /** Removes a deleted organization. */
  remove(organizationId: bigint): Promise<void>;
  /**
   * Removes unused data, such as organizations that were deleted while no worker ran. `isInUse`
   * returns whether this worker has the organization.
   */
  cleanUp(shard: Shard, isInUse: (organizationId: bigint) => boolean): Promise<void>;
  /** Called after DuckDB ran out of memory, before the retry. */
  freeMemory(): Promise<void>;
};
