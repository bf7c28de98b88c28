import type { RetainedSnapshot } from '../capture/change-log.ts';
import type { Generation, LoadProgress } from '../capture/watermark.ts';
import type { DeltaSize } from '../publish/publish.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';

/** The result of a run. */
export type RunOutcome =
  /** The published generation shows the snapshot that the run took. */
  | {
      readonly kind: 'published';
      /** The duration of writing the generation. Runs pause for a multiple of it. */
      readonly writeMs: number;
      /** Why the changes should be merged into a new base; null if they are few. */
      readonly compactReason: string | null;
    }
  /** Changes cannot be applied. A load is required, for this reason. */
  | { readonly kind: 'must be built'; readonly reason: string };

/** `load` reads everything from Postgres; `compact` merges the published base and changes. */
export type BuildKind = 'load' | 'compact';

/** Writes one organization's purchases to a store. */
export type Replicator = {
  /**
   * Applies the changes since the last run, and publishes them. After a failure, also an aborted
   * signal, the published generation stays, and the next call continues from the last commit.
   */
  run(signal: AbortSignal): Promise<RunOutcome>;
  /**
   * Builds a base, and publishes it. Runs continue meanwhile if changes can be applied to the
   * published generation. Resolves with false if only publishing failed: the next run publishes.
   */
  build(
    kind: BuildKind,
    signal: AbortSignal,
    onProgress: (progress: LoadProgress) => void,
  ): Promise<boolean>;
  /**
   * Reads ranges of purchases from Postgres again, in one transaction, and publishes. Resolves
   * with false if only a load can repair the store.
   */
  reread(ranges: readonly PurchaseRange[], signal: AbortSignal): Promise<boolean>;
  /** Snapshots whose later changes are still needed. */
  retainedSnapshots(): RetainedSnapshot[];
  /** Whether an earlier process has begun a load and not completed it. */
  hasUnfinishedBuild(): Promise<boolean>;
  /** The published generation; null before the first run, and while another one is published. */
  publishedGeneration(): Generation | null;
  /**
   * Whether a report that readers cannot read a generation with `base` (empty: the file CURRENT)
   * calls for a rebuild: not if another base is published, nor again within ten minutes.
   */
  isDamageToRepair(base: string): boolean;
  /** Whether any generation is published. */
  isPublished(): boolean;
  /** The instant and the changes of the published generation, for metrics; null if they are unknown. */
  publishedState(): { readonly asOf: bigint | null; readonly delta: DeltaSize | null };
  close(): Promise<void>;
};
