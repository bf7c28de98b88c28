import { existsSync } from 'node:fs';
import type { DuckDBInstance } from '@duckdb/node-api';
import PQueue from 'p-queue';
import type pg from 'pg';
import type { Database } from '../../src/postgres/pool.ts';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  publishedBase,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { bringUpToDate, type Confirm, moveWatermark } from '../apply/apply-changes.ts';
import type { Generation } from '../capture/watermark.ts';
import { describeFailure, isDiskFull } from '../failure.ts';
import { buildNext } from '../load/build.ts';
import { whyCompact } from '../load/compact.ts';
import { createPublisher } from '../publish/publisher.ts';
import { removeOldGenerations, removeUnusedBases } from '../publish/superseded-files.ts';
import type { Replicator, RunOutcome } from '../schedule/replicator.ts';
import type { ReplicatorOptions } from '../schedule/store.ts';
import { rereadRanges } from '../verification/reread.ts';
import { unfinishedBasePath } from './base-file.ts';
import type { DeltaFile } from './delta-file.ts';
import type { IdleFiles } from './idle-files.ts';
import { createOrganizationFiles } from './organization-files.ts';

export type FileReplicatorOptions = ReplicatorOptions & {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  /** Of all organizations. */
  readonly idleFiles: IdleFiles;
};

/** A second rebuild within this time would not repair what the first one did not. */
const damageIntervalMs = 600_000;

export function createReplicator(options: FileReplicatorOptions): Replicator {
  const { organizationId, database, dataDirectory, dataFolderId, log, observer, idleFiles } =
    options;
  const files = createOrganizationFiles(options);
  const { open, close, afterFailure } = files;
  const directory = organizationDirectory(dataDirectory, organizationId);
  const publisher = createPublisher(log, observer, () => isBuilding);
  let isBuilding = false;
  /** Calls of `withLive` that have not settled. */
  let usesOfLive = 0;
  let damageIgnoredUntil = 0;
  /** The generation that is being compacted. */
  let compacting: PublishedGeneration | null = null;
  /** A compaction lacks the repairs since its generation: the change log does not have them. */
  let repairs = 0;
  // Excludes a run while the live delta is replaced.
  const exclusively = new PQueue({ concurrency: 1 });
  const closeLive = () => exclusively.add(() => close('live').catch(() => {}));

  /** Runs `work` while nothing else uses or closes the live delta. */
  const withLive = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    usesOfLive += 1;
    try {
      return await exclusively.add(async () => {
        idleFiles.markUsed(closeLive);
        try {
          return await work();
        } finally {
          idleFiles.markUnused(closeLive);
        }
      });
    } finally {
      // Outside the queue: another organization may be waiting to close this one's file.
      await idleFiles.evict().finally(() => {
        usesOfLive -= 1;
      });
    }
  };

  const applyTo = (
    file: DeltaFile | null,
    signal: AbortSignal,
    then: (source: pg.ClientBase, confirm: Confirm) => Promise<void> = async () => {},
  ): Promise<number | string> =>
    bringUpToDate(options, file, signal, async (source, confirm, changes) => {
      observer.applied(changes);
      await then(source, confirm);
    });

  /**
   * Applies the last changes to the delta `next`, and replaces the live delta by it. Resolves with
   * false if only publishing failed.
   */
  const replaceLive = async (signal: AbortSignal): Promise<boolean> => {
    const next = await open('next');
    if (next === null) throw new Error('the delta that was built is missing');
    // Also without changes: the instant of the data never goes back.
    const outcome = await applyTo(next, signal, (_source, confirm) => moveWatermark(next, confirm));
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
    if (live === null) throw new Error('the live delta is missing');
    await publisher.publish(live);
  };

  /** Call it in `withLive`. */
  const removeUnused = async (): Promise<void> => {
    if (isBuilding) return;
    await removeUnusedBases(directory, (await open('live'))?.base ?? null);
  };

  /** Removes all that no query needs. Call it in `withLive`. */
  const freeSpace = async (): Promise<void> => {
    await removeOldGenerations(directory, readPublished(directory)?.file ?? null, 0);
    await removeUnused();
  };

  return {
    run: (signal) =>
      withLive(async (): Promise<RunOutcome> => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
          const outcome = await applyTo(live, signal);
          if (live === null || typeof outcome === 'string') {
            // The change log need not be retained for it any more.
            await files.remove('live');
            return { kind: 'must be built', reason: String(outcome) };
          }
          if (outcome > 0) log.debug({ changes: outcome }, 'applied changes');
          const { baseRows, delta, copyMs } = await publisher.publishIfNew(live);
          return {
            kind: 'published',
            writeMs: copyMs,
            compactReason: whyCompact(baseRows, delta.rows, options.maxDeltaRows),
          };
        } catch (error) {
          const reported = await afterFailure('live', error);
          if (isDiskFull(error)) await freeSpace().catch(() => {});
          throw reported;
        }
      }),

    reread: (ranges, signal) =>
      withLive(async () => {
        signal.throwIfAborted();
        try {
          const live = await open('live');
          if (live === null) return false;
          let isRepaired = false;
          await applyTo(live, signal, async (source, confirm) => {
            isRepaired = await rereadRanges(live, source, ranges, signal);
            if (!isRepaired) return;
            repairs += 1;
            // The published generation differs, although Postgres has not changed.
            await moveWatermark(live, confirm);
          });
          if (isRepaired) await publisher.publish(live);
          return isRepaired;
        } catch (error) {
          throw await afterFailure('live', error);
        }
      }),

    async build(kind, signal, onProgress) {
      const startedAt = Date.now();
      try {
        const [generation, repairsBefore] = await exclusively.add(async () => {
          isBuilding = true;
          if (kind === 'compact') compacting = publisher.current();
          return [compacting, repairs] as const;
        });
        if (kind === 'compact' && generation === null) throw new Error('nothing is published');
        const { loadChunkRows: chunkRows } = options;
        const isReplacing = existsSync(currentFile(directory));
        const source = { database, dataFolderId, organizationId };
        const common = { ...source, signal, onProgress, chunkRows };
        await buildNext({ ...common, files, generation, isReplacing });
        const isPublished = await withLive(async () => {
          if (kind === 'compact' && repairs !== repairsBefore) {
            throw new Error('the purchases were repaired during the compaction');
          }
          return replaceLive(signal);
        });
        const purchases = publisher.current()?.purchases;
        log.info({ purchases, milliseconds: Date.now() - startedAt }, 'built');
        return isPublished;
      } catch (error) {
        // If the live delta was replaced already, the next run opens the new one.
        await closeLive();
        const reported = await afterFailure('next', error);
        // A compaction does not resume.
        if (kind === 'compact') {
          await files.remove('next');
          await files.removeBase();
        }
        throw reported;
      } finally {
        isBuilding = false;
        compacting = null;
        // Of a discarded build, or replaced.
        await withLive(removeUnused).catch(() => {});
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
        // An interrupted compaction, or a load that was interrupted before it began.
        await files.removeBase();
        return false;
      }),

    // While a snapshot is published, the up-to-date instant of the previous generation could be
    // later than that snapshot: the data would seem to go back in time.
    publishedGeneration: () => (usesOfLive > 0 ? null : nameOf(publisher.current())),

    isDamageToRepair(base) {
      if (performance.now() < damageIgnoredUntil) return false;
      if (base !== publishedBase(directory)) return false;
      damageIgnoredUntil = performance.now() + damageIntervalMs;
      return true;
    },

    isPublished: () => existsSync(currentFile(directory)),

    publishedState() {
      const last = publisher.last();
      if (last !== null) return { asOf: last.generation.asOf, delta: last.delta };
      // Runs may have failed since this worker started.
      try {
        return { asOf: readPublished(directory)?.asOf ?? null, delta: null };
      } catch {
        return { asOf: null, delta: null };
      }
    },

    async close() {
      await exclusively.onIdle();
      idleFiles.markUsed(closeLive);
      await files.release();
    },
  };
}

const nameOf = (generation: PublishedGeneration | null): Generation | null =>
  generation === null ? null : { ...generation, name: generation.file };
