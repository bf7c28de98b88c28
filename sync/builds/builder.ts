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
 * The result of a compaction, with the same purchases as what it replaces. `publish` adds the changes that
 * ticks have published meanwhile. No tick may run during `publish`.
 */
export type Compacted = Pick<Prepared, 'publish' | 'discard'>;

/** Builds new content of a store beside the published content. All methods reject after a failure. */
export type Builder = {
  /** The organizations that are loaded together: small ones share a transaction. */
  groupLoads(organizations: readonly Organization[]): Promise<Organization[][]>;
  /**
   * Reads all purchases from Postgres. All results miss the changes since one snapshot. Rejects with
   * TooManyBytesError if an organization must be loaded alone.
   */
  load(organizations: readonly Organization[], options: BuildOptions): Promise<Prepared[]>;
  /**
   * Adds the changes since the organization's watermark to a copy of what is published. Rejects with
   * MissingChangesError or TooManyBytesError if the organization must be loaded.
   */
  catchUp(organization: Organization, tick: number, options: BuildOptions): Promise<Prepared>;
  /** Merges the changes of published ticks. */
  compact(
    organization: Organization,
    publishedTick: () => number,
    options: BuildOptions,
  ): Promise<Compacted>;
  /** Whether readers must replay so many changes that a saved delta helps. Undefined if readers replay no logs. */
  isReplayLong?(size: StoredSize): boolean;
  /** Saves what the published ticks up to `tick` have changed, so that readers replay less. */
  saveDelta?(organizationId: bigint, tick: number): Promise<void>;
};
