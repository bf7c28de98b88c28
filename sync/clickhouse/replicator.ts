import { mkdirSync } from 'node:fs';
import PQueue from 'p-queue';
import { clickHouseLayoutVersion } from '../../src/engines/clickhouse/schema.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { findInvalidPurchase } from '../apply/invalid-purchase.ts';
import type { RetainedSnapshot } from '../capture/change-log.ts';
import { isDataError } from '../failure.ts';
import type { Replicator, RunOutcome } from '../schedule/replicator.ts';
import type { ReplicatorOptions } from '../schedule/store.ts';
import { buildFromPostgres } from './build.ts';
import { type ContentSize, compact, sizeOf, whyCompactContent } from './compact.ts';
import {
  type Content,
  newIdentifier,
  newLoad,
  publish,
  readNewest,
  type StoredGeneration,
} from './generations.ts';
import { dropLoad } from './loads.ts';
import { rereadRanges } from './reread.ts';
import { batchAfter, bringUpToDate, type Stores, withBatch } from './update.ts';

type ClickHouseReplicatorOptions = ReplicatorOptions &
  Stores & {
    readonly dataDirectory: string;
    readonly dataFolderId: string;
    readonly requireTables: () => Promise<void>;
    /** Loads that this worker writes and has not published. */
    readonly unfinishedLoads: Set<string>;
  };

/** Writes one organization's purchases to ClickHouse. */
export function createClickHouseReplicator(options: ClickHouseReplicatorOptions): Replicator {
  const { organizationId, database, clickhouse, log, observer, unfinishedLoads } = options;
  const directory = organizationDirectory(options.dataDirectory, organizationId);
  // A run and the end of a build publish one after the other.
  const exclusively = new PQueue({ concurrency: 1 });
  /** The newest generation; null before the first run, and if the change log lacks its changes. */
  let published: StoredGeneration | null = null;
  let size: ContentSize | null = null;
  /** Whether any generation is published, also one whose changes the change log lacks. */
  let isAnyPublished = false;
  let isPublishing = false;
  /** The writer of the next batches, and the generation that it published last. */
  let writer: { readonly id: string; readonly number: bigint } | null = null;
  /** A compaction lacks the repairs since its content: the change log does not have them. */
  let repairs = 0;
  /** The snapshot that a build needs. */
  let building: RetainedSnapshot | null = null;

  const withPublished = <Result>(
    signal: AbortSignal,
    work: (newest: StoredGeneration | null) => Promise<Result>,
  ): Promise<Result> =>
    exclusively.add(async () => {
      signal.throwIfAborted();
      isPublishing = true;
      try {
        return await work(await readPublished(signal));
      } catch (error) {
        // Rows of a failed insert may still arrive. No generation will name their batch.
        writer = null;
        throw await reportedError(error);
      } finally {
        isPublishing = false;
      }
    });

  /** If a purchase caused the error, an error with its id. */
  const reportedError = async (error: unknown): Promise<unknown> => {
    if (!isDataError(error)) return error;
    return (await findInvalidPurchase(database, organizationId).catch(() => null)) ?? error;
  };

  const readPublished = async (signal: AbortSignal): Promise<StoredGeneration | null> => {
    mkdirSync(directory, { recursive: true });
    await options.requireTables();
    const newest = await readNewest(clickhouse, organizationId, signal);
    if (newest?.number !== published?.number) size = null;
    isAnyPublished = newest !== null;
    published = newest?.layoutVersion === clickHouseLayoutVersion ? newest : null;
    return newest;
  };

  /** A writer continues only after its own generation: others would name its later batches. */
  const writerAfter = ({ number }: StoredGeneration): string => {
    if (writer?.number !== number) writer = { id: newIdentifier(), number };
    return writer.id;
  };

  const publishContent = async (
    content: Content,
    previous: StoredGeneration | null,
    writerId: string,
  ): Promise<void> => {
    const startedAt = performance.now();
    published = await publish(clickhouse, content, previous);
    writer = { id: writerId, number: published.number };
    isAnyPublished = true;
    size = await sizeOf(clickhouse, content);
    observer.published(0, performance.now() - startedAt);
    log.debug({ generation: String(published.number), ...size }, 'published');
  };

  const run = async (newest: StoredGeneration | null, signal: AbortSignal): Promise<RunOutcome> => {
    if (newest === null || published === null) {
      const reason = newest === null ? 'nothing was loaded yet' : 'the layout has changed';
      return { kind: 'must be built', reason };
    }
    const startedAt = performance.now();
    const writerId = writerAfter(newest);
    const update = await bringUpToDate(options, newest, writerId, signal);
    if (typeof update === 'string') {
      // The change log need not be retained for it any more.
      published = null;
      return { kind: 'must be built', reason: update };
    }
    const { content, changes } = update;
    observer.applied(changes);
    if (changes > 0) {
      log.debug({ changes }, 'applied changes');
      await publishContent(content, newest, writerId);
    }
    size ??= await sizeOf(clickhouse, content);
    return {
      kind: 'published',
      writeMs: changes > 0 ? performance.now() - startedAt : 0,
      compactReason: whyCompactContent(content, size, options.maxDeltaRows),
    };
  };

  /** Applies the last changes to a new load, and publishes it unless `requireCurrent` throws. */
  const replacePublished = (
    content: Content,
    writerId: string,
    signal: AbortSignal,
    requireCurrent: () => void,
  ) =>
    withPublished(signal, async (newest) => {
      requireCurrent();
      const update = await bringUpToDate(
        options,
        content,
        writerId,
        signal,
        // Also without changes: the instant of the data never goes back.
        async (_source, updated, confirm) => ({ ...updated, watermark: await confirm() }),
      );
      if (typeof update === 'string') throw new Error(`the load must start over: ${update}`);
      await publishContent(update.content, newest, writerId);
    });

  return {
    run: (signal) => withPublished(signal, (newest) => run(newest, signal)),

    reread: (ranges, signal) =>
      withPublished(signal, async (newest) => {
        if (newest === null || published === null) return false;
        const writerId = writerAfter(newest);
        const update = await bringUpToDate(
          options,
          newest,
          writerId,
          signal,
          async (source, updated, confirm) => {
            const batch = batchAfter(updated, writerId);
            const written = await rereadRanges(clickhouse, source, updated, batch, ranges, signal);
            return { ...withBatch(updated, batch, written), watermark: await confirm() };
          },
        );
        if (typeof update === 'string') return false;
        await publishContent(update.content, newest, writerId).finally(() => {
          repairs += 1;
        });
        return true;
      }),

    async build(kind, signal, onProgress) {
      const startedAt = Date.now();
      const [load, writerId] = [newLoad(organizationId), newIdentifier()];
      const repairsBefore = repairs;
      const requireCurrent = () => {
        if (kind !== 'compact' || repairs === repairsBefore) return;
        throw new Error('the purchases were repaired during the compaction');
      };
      const onRetain = (snapshot: RetainedSnapshot) => {
        building = snapshot;
      };
      const compactPublished = async (): Promise<Content> => {
        if (published === null) throw new Error('nothing is published');
        onRetain(published.watermark);
        return compact(clickhouse, published, load, signal);
      };
      let isBuilt = false;
      unfinishedLoads.add(load);
      try {
        const isReplacing = isAnyPublished;
        const common = { ...options, load, writer: writerId, isReplacing, signal };
        const content =
          kind === 'compact'
            ? await compactPublished()
            : await buildFromPostgres({ ...common, onRetain, onProgress });
        isBuilt = true;
        await replacePublished(content, writerId, signal, requireCurrent);
        log.info({ ...size, milliseconds: Date.now() - startedAt }, 'built');
        return true;
      } catch (error) {
        // Once it may be published, a load is dropped only if no generation names it for a while.
        if (!isBuilt) await dropLoad(clickhouse, load).catch(() => {});
        throw await reportedError(error);
      } finally {
        unfinishedLoads.delete(load);
        building = null;
      }
    },

    retainedSnapshots: () => [published?.watermark ?? [], building ?? []].flat(),

    // An interrupted load begins again: nothing is published, or the change log lacks changes.
    hasUnfinishedBuild: () => Promise.resolve(false),

    publishedGeneration: () =>
      isPublishing || published === null
        ? null
        : { ...published.watermark, name: String(published.number) },
    // Readers report damage of files only.
    isDamageToRepair: () => false,
    isPublished: () => isAnyPublished,
    publishedState: () => ({
      asOf: published?.watermark.asOf ?? null,
      delta: size === null ? null : { rows: size.changes, bytes: 0 },
    }),
    close: () => exclusively.onIdle(),
  };
}
