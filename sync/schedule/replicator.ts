import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type pg from 'pg';
import type { Logger } from 'pino';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  publishedFileName,
} from '../../src/purchase-store/published-generation.ts';
import { applyChanges, type Confirm, moveWatermark } from '../apply/apply-changes.ts';
import type { RetainedSnapshot } from '../capture/change-log.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import type { LoadProgress } from '../capture/watermark.ts';
import { describeFailure } from '../failure.ts';
import type { IdleFiles } from '../files/idle-files.ts';
import { createOrganizationFiles } from '../files/organization-files.ts';
import { type PurchaseFile, purchaseFilePath, reset } from '../files/purchase-file.ts';
import { buildNextFile } from '../load/build.ts';
import { whySort } from '../load/sort-generation.ts';
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
      /** Why the file is worth sorting anew, where it was looked at and is. */
      readonly sortReason: string | null;
    }
  /** Changes cannot be applied: the file must be built first, because of `reason`. */
  | { readonly kind: 'must be built'; readonly reason: string };

/** `load` reads everything from Postgres; `sort` puts the rows that are there in order. */
export type BuildKind = 'load' | 'sort';

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
   * Whether a report that readers cannot read `file` (empty: the file CURRENT) calls for a
   * rebuild: not if it names another generation, nor again within ten minutes.
   */
  isDamageToRepair(file: string): boolean;
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
  readonly loadChunkRows?: number;
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
  const publisher = createPublisher(log);
  let changesSinceLook = 0;
  let isBuilding = false;
  let isLiveInUse = false;
  let damageIgnoredUntil = 0;
  /** What the file that is being sorted shows. */
  let sorting: RetainedSnapshot | null = null;
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

  /** Looks whether the file is worth sorting when a tenth of it has changed since the last look. */
  const lookAtOrder = async (live: PurchaseFile, changes: number): Promise<string | null> => {
    changesSinceLook += changes;
    if (changesSinceLook < (publisher.current()?.purchases ?? 0) / 10) return null;
    changesSinceLook = 0;
    return whySort(live);
  };

  const beginToSort = (): string => {
    const published = publisher.current();
    if (published === null) throw new Error('nothing is published that could be sorted');
    sorting = published;
    return join(directory, published.file);
  };

  /** Gives the number of changes, or why they cannot be told; `then` sees what the file then shows. */
  const bringUpToDate = async (
    file: PurchaseFile,
    signal: AbortSignal,
    then: (source: pg.ClientBase, confirm: Confirm) => Promise<void> = async () => {},
  ): Promise<number | string> =>
    withSnapshot(database, async (source) => {
      const now = await takeSnapshot(source, organizationId);
      if (file.watermark === null) return 'nothing was loaded yet';
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
    // Also without changes: what readers are shown must never seem to be of an earlier moment.
    const outcome = await bringUpToDate(next, signal, (_source, confirm) =>
      moveWatermark(next, confirm),
    );
    if (typeof outcome === 'string') throw new Error(`the file must be built again: ${outcome}`);
    await next.connection.run(`checkpoint ${next.catalog}`);
    await files.replaceLive();
    try {
      await publisher.publish(await open('live'));
      return true;
    } catch (error) {
      const { message, advice } = describeFailure(await afterFailure('live', error));
      log.warn({ advice }, `built, but not published yet: ${message}`);
      return false;
    }
  };

  return {
    run: (signal) =>
      withLive(async (): Promise<RunOutcome> => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
          const outcome = await bringUpToDate(live, signal);
          if (typeof outcome === 'string') {
            // Its changes can never be told again: nothing must be kept for it.
            if (live.watermark !== null) await reset(live);
            return { kind: 'must be built', reason: outcome };
          }
          if (outcome > 0) log.debug({ changes: outcome }, 'applied changes');
          const publication = await publisher.publishIfNew(live);
          return { kind: 'published', publication, sortReason: await lookAtOrder(live, outcome) };
        } catch (error) {
          throw await afterFailure('live', error);
        }
      }),

    reread: (ranges, signal) =>
      withLive(async () => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
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
        const { next, generation } = await exclusively.add(async () => {
          isBuilding = true;
          return {
            generation: kind === 'sort' ? beginToSort() : null,
            next: await open('next'),
          };
        });
        const { loadChunkRows: chunkRows } = options;
        const isReplacing = existsSync(currentFile(directory));
        const source = { database, dataFolderId, organizationId };
        const common = { ...source, signal, onProgress, chunkRows };
        await buildNextFile(next, { ...common, generation, isReplacing });
        const isPublished = await withLive(() => replaceLive(signal));
        const purchases = publisher.current()?.purchases;
        log.info({ purchases, milliseconds: Date.now() - startedAt }, 'built');
        return isPublished;
      } catch (error) {
        // The file in its place, if it was replaced, is opened by the next run.
        await closeLive();
        const told = await afterFailure('next', error);
        // Nothing will go on with it.
        if (kind === 'sort') await files.remove('next');
        throw told;
      } finally {
        isBuilding = false;
        sorting = null;
      }
    },

    retainedSnapshots: () => [...files.retainedSnapshots(), ...(sorting === null ? [] : [sorting])],

    hasUnfinishedBuild: () =>
      exclusively.add(async () => {
        const path = purchaseFilePath(directory, 'next');
        if (isBuilding || !existsSync(path)) return false;
        const { watermark, progress } = await open('next');
        await close('next');
        if (watermark !== null || progress !== null) return true;
        // Broken off before there was anything in it.
        await files.remove('next');
        return false;
      }),

    // While a snapshot is being published, a claim about the generation before it could be
    // of a later instant: the data would seem to go back in time.
    publishedGeneration: () => (isLiveInUse ? null : publisher.current()),

    isDamageToRepair(file) {
      if (performance.now() < damageIgnoredUntil) return false;
      if (file !== publishedFileName(directory)) return false;
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
