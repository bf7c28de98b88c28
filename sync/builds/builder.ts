import type { Organization } from '../organization.ts';
import type { Prepared, StoredSize } from '../tick/store.ts';

export type BuildProgress = { readonly loaded: number; readonly expected: number };

export type BuildOptions = {
  readonly signal: AbortSignal;
  /** Called with the snapshot whose later changes the build needs. */
  readonly onRetain: (snapshot: string) => void;
  readonly onProgress: (progress: BuildProgress) => void;
};

/**
 * What a compaction puts in the place of what is published. It shows the same purchases. `publish` adds the
 * changes that were published since. No tick may run meanwhile.
 */
export type Compacted = Pick<Prepared, 'publish' | 'discard'>;

/** Builds what a store publishes, beside what it has published. All methods reject after a failure. */
export type Builder = {
  /** The organizations that are loaded together: small ones share a transaction. */
  groupLoads(organizations: readonly Organization[]): Promise<Organization[][]>;
  /**
   * Reads all purchases from Postgres. All results miss the changes since one snapshot. Rejects with
   * TooManyBytesError if an organization must be loaded alone.
   */
  load(organizations: readonly Organization[], options: BuildOptions): Promise<Prepared[]>;
  /**
   * Adds the changes since `shown` to a copy of what is published. Rejects with InsufficientLogError or
   * TooManyBytesError if the organization must be loaded.
   */
  catchUp(organization: Organization, tick: number, options: BuildOptions): Promise<Prepared>;
  /** Merges the changes of published ticks. */
  compact(
    organization: Organization,
    publishedTick: () => number,
    options: BuildOptions,
  ): Promise<Compacted>;
  /** If readers replay logs: whether they must replay so much that `saveDelta` is worth it. */
  isReplayLong?(size: StoredSize): boolean;
  /** Saves what the published ticks up to `tick` have changed, so that readers replay less. */
  saveDelta?(organizationId: bigint, tick: number): Promise<void>;
};
