import { existsSync } from 'node:fs';
import type { DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type pg from 'pg';
import type { Logger } from 'pino';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  publishedBase,
} from '../../src/purchase-store/published-generation.ts';
import { applyChanges, type Confirm, moveWatermark } from '../apply/apply-changes.ts';
import type { RetainedSnapshot } from '../capture/change-log.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import type { LoadProgress } from '../capture/watermark.ts';
import { describeFailure } from '../failure.ts';
import { unfinishedBasePath } from '../files/base-file.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import type { IdleFiles } from '../files/idle-files.ts';
import { createOrganizationFiles } from '../files/organization-files.ts';
import { buildNext } from '../load/build.ts';
import { whyCompact } from '../load/compact.ts';
import type { Publication } from '../publish/publish.ts';
import { createPublisher } from '../publish/publisher.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';
import { rereadRanges } from '../verification/reread.ts';

/** What a run came to. */
export type RunOutcome =
  /** What is published is what Postgres held a moment ago. */
  | {
      readonly kind: 'published';
      readonly publication: Publication;
      /** Why the delta should be compacted; null if it is small. */
      readonly compactReason: string | null;
    }
  /** Changes cannot be applied: the file must be built first, because of `reason`. */
  | { readonly kind: 'must be built'; readonly reason: string };

/** `load` reads everything from Postgres; `compact` merges the published base and delta. */
export type BuildKind = 'load' | 'compact';

export type Replicator = {
  /**
   * Brings the organization's purchases up to what Postgres holds now and
   * publishes them where anything changed. A failure leaves published what was
   * published, and the next call goes on from the last thing that was committed.
   * An aborted signal is such a failure.
   */
  run(signal: AbortSignal): Promise<RunOutcome>;
  /**
   * Builds the organization's file beside the live one and lets it take its
   * place. Runs go on meanwhile, as far as the live file can be brought up to date;
   * a build that was broken off goes on where it stood. False where it could not be
   * published in the end, which the next run does.
   */
  build(
    kind: BuildKind,
    signal: AbortSignal,
    onProgress: (progress: LoadProgress) => void,
  ): Promise<boolean>;
  /**
   * Reads ranges of the live file's purchases again, all or nothing, and publishes
   * the outcome. False where only a build can mend the file.
   */
  reread(ranges: readonly PurchaseRange[], signal: AbortSignal): Promise<boolean>;
  /** Snapshots that changes may still have to be told from. */
  retainedSnapshots(): RetainedSnapshot[];
  /** Whether a process before this one began a load and did not finish it. */
  hasUnfinishedBuild(): Promise<boolean>;
  /** The generation that a run has published or found published; null before, and while another one is made. */
  publishedGeneration(): PublishedGeneration | null;
  /**
   * Whether a report that readers cannot read a generation with `base` (empty: the file CURRENT)
   * calls for a rebuild: not if another base is published, nor again within ten minutes.
   */
  isDamageToRepair(base: string): boolean;
  /** Whether readers have a generation, be it an old one. */
  isPublished(): boolean;
  close(): Promise<void>;
};

export type OrganizationSyncOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  readonly log: Logger;
  /** Rows of a chunk of a load or a compaction, and the rows of changes that a delta may have; smaller in tests. */
  readonly loadChunkRows?: number;
  readonly maxDeltaRows?: number;
  /** Of all organizations. */
  readonly idleFiles: IdleFiles;
};

/** If a rebuild did not end it, another one does not either. */
const damageIntervalMs = 600_000;

export function createReplicator(options: OrganizationSyncOptions): Replicator {
  const { organizationId, database, dataDirectory, dataFolderId, log, idleFiles } = options;
  const files = createOrganizationFiles(options);
  const { open, close, afterFailure } = files;
  const directory = organizationDirectory(dataDirectory, organizationId);
  const publisher = createPublisher(log, () => isBuilding);
  let isBuilding = false;
  let isLiveInUse = false;
  let damageIgnoredUntil = 0;
  /** The generation that is being compacted. */
  let compacting: PublishedGeneration | null = null;
  // A run and the moment of replacing the live file exclude each other.
  const exclusively = new PQueue({ concurrency: 1 });
  const closeLive = () => exclusively.add(() => close('live').catch(() => {}));

  /** Nobody else works with the live file meanwhile, or closes it. */
  const withLive = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await exclusively.add(async () => {
        idleFiles.take(closeLive);
        isLiveInUse = true;
        try {
          return await work();
        } finally {
          isLiveInUse = false;
          idleFiles.leave(closeLive);
        }
      });
    } finally {
      // Not within the queue: another organization may be about to close this one's.
      await idleFiles.closeSurplus();
    }
  };

  /** Gives the number of changes, or why they cannot be told; `then` sees what the file then shows. */
  const bringUpToDate = async (
    file: DeltaFile | null,
    signal: AbortSignal,
    then: (source: pg.ClientBase, confirm: Confirm) => Promise<void> = async () => {},
  ): Promise<number | string> =>
    withSnapshot(database, async (source) => {
      const now = await takeSnapshot(source, organizationId);
      if (file === null) return 'nothing was loaded yet';
      const reason = await whyLogInsufficient(source, file.watermark, now);
      if (reason !== null) return reason;
      const confirm = () => confirmSnapshot(database, organizationId, now);
      const changes = await applyChanges(source, file, confirm, signal);
      await then(source, confirm);
      return changes;
    });

  /**
   * Lets the file that was built, with what changed since, take the live one's place. False
   * where nothing is left but publishing it.
   */
  const replaceLive = async (signal: AbortSignal): Promise<boolean> => {
    const next = await open('next');
    if (next === null) throw new Error('the file that was built is gone');
    // Also without changes: what readers are shown must never seem to be of an earlier moment.
    const outcome = await bringUpToDate(next, signal, (_source, confirm) =>
      moveWatermark(next, confirm),
    );
    if (typeof outcome === 'string') throw new Error(`the file must be built again: ${outcome}`);
    await files.replaceLive();
    try {
      await publishLive();
      return true;
    } catch (error) {
      const { message, advice } = describeFailure(await afterFailure('live', error));
      log.warn({ advice }, `built, but not published yet: ${message}`);
      return false;
    }
  };

  const publishLive = async (): Promise<void> => {
    const live = await open('live');
    if (live === null) throw new Error('the file that was built is gone');
    await publisher.publish(live);
  };

  return {
    run: (signal) =>
      withLive(async (): Promise<RunOutcome> => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
          const outcome = await bringUpToDate(live, signal);
          if (live === null || typeof outcome === 'string') {
            // Its changes can never be told again: nothing must be kept for it.
            await files.remove('live');
            return { kind: 'must be built', reason: String(outcome) };
          }
          if (outcome > 0) log.debug({ changes: outcome }, 'applied changes');
          const publication = await publisher.publishIfNew(live);
          return {
            kind: 'published',
            publication,
            compactReason: await whyCompact(live, options.maxDeltaRows),
          };
        } catch (error) {
          throw await afterFailure('live', error);
        }
      }),

    reread: (ranges, signal) =>
      withLive(async () => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
          if (live === null) return false;
          let isMended = false;
          await bringUpToDate(live, signal, async (source, confirm) => {
            isMended = (await rereadRanges(live, source, ranges, signal)).repairable;
            if (!isMended) return;
            // What is published is not what the file shows now, though nothing has changed.
            await moveWatermark(live, confirm);
          });
          if (isMended) await publisher.publish(live);
          return isMended;
        } catch (error) {
          throw await afterFailure('live', error);
        }
      }),

    async build(kind, signal, onProgress) {
      const startedAt = Date.now();
      try {
        const generation = await exclusively.add(async () => {
          isBuilding = true;
          if (kind === 'compact') compacting = publisher.current();
          return compacting;
        });
        if (kind === 'compact' && generation === null) throw new Error('nothing is published');
        const { loadChunkRows: chunkRows } = options;
        const isReplacing = existsSync(currentFile(directory));
        const source = { database, dataFolderId, organizationId };
        const common = { ...source, signal, onProgress, chunkRows };
        await buildNext({ ...common, files, generation, isReplacing });
        const isPublished = await withLive(() => replaceLive(signal));
        const purchases = publisher.current()?.purchases;
        log.info({ purchases, milliseconds: Date.now() - startedAt }, 'built');
        return isPublished;
      } catch (error) {
        // The file in its place, if it was replaced, is opened by the next run.
        await closeLive();
        const told = await afterFailure('next', error);
        // Nothing will go on with it.
        if (kind === 'compact') {
          await files.remove('next');
          await files.removeBase();
        }
        throw told;
      } finally {
        isBuilding = false;
        compacting = null;
      }
    },

    retainedSnapshots: () => [
      ...files.retainedSnapshots(),
      ...(compacting === null ? [] : [compacting]),
    ],

    hasUnfinishedBuild: () =>
      exclusively.add(async () => {
        if (isBuilding) return false;
        const next = await open('next');
        await close('next');
        if (next !== null) return true;
        await files.remove('next');
        if (!existsSync(unfinishedBasePath(directory))) return false;
        const { progress } = await files.openBase();
        if (progress !== null) return true;
        // Broken off before there was anything in it, or the base of a compaction.
        await files.removeBase();
        return false;
      }),

    // While a snapshot is being published, a claim about the generation before it could be
    // of a later instant: the data would seem to go back in time.
    publishedGeneration: () => (isLiveInUse ? null : publisher.current()),

    isDamageToRepair(base) {
      if (performance.now() < damageIgnoredUntil) return false;
      if (base !== publishedBase(directory)) return false;
      damageIgnoredUntil = performance.now() + damageIntervalMs;
      return true;
    },

    isPublished: () => existsSync(currentFile(directory)),

    async close() {
      await exclusively.onIdle();
      idleFiles.take(closeLive);
      await files.release();
    },
  };
}
