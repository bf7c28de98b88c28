import { mkdirSync } from 'node:fs';
import PQueue from 'p-queue';
import type pg from 'pg';
import sql from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { clickHouseLayoutVersion } from '../../src/engines/clickhouse/schema.ts';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { findInvalidPurchase } from '../apply/invalid-purchase.ts';
import { currentSnapshot, type RetainedSnapshot, retainChangeLog } from '../capture/change-log.ts';
import { streamChanges } from '../capture/changes.ts';
import { whyLogInsufficient } from '../capture/log-sufficiency.ts';
import { confirmSnapshot, takeSnapshot } from '../capture/snapshot.ts';
import type { Generation, LoadProgress, SourceSnapshot } from '../capture/watermark.ts';
import { isDataError } from '../failure.ts';
import type { Replicator, RunOutcome } from '../schedule/replicator.ts';
import type { ReplicatorOptions } from '../schedule/store.ts';
import { type Batch, writeChanges } from './apply-changes.ts';
import { type ContentSize, compact, sizeOf, whyCompact } from './compact.ts';
import {
  type Content,
  currentPurchases,
  newIdentifier,
  newLoad,
  publish,
  readNewest,
  type StoredGeneration,
} from './generations.ts';
import { loadPurchases } from './load.ts';
import { dropLoad } from './loads.ts';

export type ClickHouseReplicatorOptions = ReplicatorOptions & {
  readonly database: Database;
  readonly clickhouse: ClickHouse;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  readonly requireTables: () => Promise<void>;
  /** Loads that this worker writes and has not published. */
  readonly unfinishedLoads: Set<string>;
};

/** Writes one organization's purchases to ClickHouse. */
export function createClickHouseReplicator(options: ClickHouseReplicatorOptions): Replicator {
  const { organizationId, database, clickhouse, dataFolderId, log, observer } = options;
  const { unfinishedLoads } = options;
  const directory = organizationDirectory(options.dataDirectory, organizationId);
  // A run and a build publish one after the other.
  const exclusively = new PQueue({ concurrency: 1 });
  /** The newest generation; null before the first run, and if the change log lacks its changes. */
  let published: StoredGeneration | null = null;
  let size: ContentSize | null = null;
  /** Whether any generation is published, also one whose changes the change log lacks. */
  let isAnyPublished = false;
  let isInUse = false;
  /** The generation that the writer published last: it has written no later batches. */
  let writer: { readonly id: string; readonly number: bigint } | null = null;
  /** Snapshots that a load or a compaction needs. */
  let building: readonly RetainedSnapshot[] = [];

  const publishedExclusively = <Result>(work: () => Promise<Result>): Promise<Result> =>
    exclusively.add(async () => {
      isInUse = true;
      try {
        return await work();
      } catch (error) {
        // Rows of a failed insert may still arrive. No generation names their batch.
        writer = null;
        throw await reportedError(error);
      } finally {
        isInUse = false;
      }
    });

  const reportedError = async (error: unknown): Promise<unknown> => {
    if (!isDataError(error)) return error;
    return (await findInvalidPurchase(database, organizationId).catch(() => null)) ?? error;
  };

  const read = async (signal: AbortSignal): Promise<StoredGeneration | null> => {
    const newest = await readNewest(clickhouse, organizationId, signal);
    if (newest?.number !== published?.number) size = null;
    isAnyPublished = newest !== null;
    published = newest?.layoutVersion === clickHouseLayoutVersion ? newest : null;
    return newest;
  };

  const publishContent = async (content: Content, previous: StoredGeneration | null) => {
    const startedAt = performance.now();
    published = await publish(clickhouse, content, previous);
    const { number } = published;
    if (writer !== null) writer = { id: writer.id, number };
    size = await sizeOf(clickhouse, content);
    observer.published(0, performance.now() - startedAt);
    log.debug({ number: String(number), ...size }, 'published');
  };

  /** The next batch of this process after those of a content. Batches ascend over all writers. */
  const batchAfter = ({ batches }: Content, id: string): Batch => ({
    writer: id,
    batch: batches.reduce((max, { last }) => (last > max ? last : max), 0n) + 1n,
  });

  /**
   * Writes the changes since a content, and returns the content with them; or the reason why the
   * change log lacks some.
   */
  const bringUpToDate = (
    content: Content,
    id: string,
    signal: AbortSignal,
    then: (
      source: pg.ClientBase,
      content: Content,
      now: SourceSnapshot,
    ) => Promise<Content> = async (_source, content) => content,
  ): Promise<Content | string> =>
    withSnapshot(database, async (source) => {
      const now = await takeSnapshot(source, organizationId);
      const reason = await whyLogInsufficient(source, content.watermark, now);
      if (reason !== null) return reason;
      const batch = batchAfter(content, id);
      const changes = streamChanges(source, organizationId, content.watermark.snapshot);
      const count = await writeChanges(clickhouse, content, batch, changes, signal);
      observer.applied(count);
      if (count === 0) return then(source, content, now);
      log.debug({ changes: count }, 'applied changes');
      const watermark = await confirmSnapshot(database, organizationId, now);
      return then(source, { ...withBatch(content, batch), watermark }, now);
    });

  const run = async (signal: AbortSignal): Promise<RunOutcome> => {
    signal.throwIfAborted();
    mkdirSync(directory, { recursive: true });
    await options.requireTables();
    const newest = await read(signal);
    if (newest === null || published === null) {
      const reason = newest === null ? 'nothing was loaded yet' : 'the layout has changed';
      return { kind: 'must be built', reason };
    }
    if (writer?.number !== newest.number) writer = { id: newIdentifier(), number: newest.number };
    const startedAt = performance.now();
    const content = await bringUpToDate(newest, writer.id, signal);
    if (typeof content === 'string') {
      // The change log need not be retained for it any more.
      published = null;
      return { kind: 'must be built', reason: content };
    }
    const isChanged = content !== newest;
    if (isChanged) await publishContent(content, newest);
    size ??= await sizeOf(clickhouse, content);
    return {
      kind: 'published',
      writeMs: isChanged ? performance.now() - startedAt : 0,
      compactReason: whyCompact(content, size, options.maxDeltaRows),
    };
  };

  const load = async (
    id: string,
    load: string,
    signal: AbortSignal,
    onProgress: (progress: LoadProgress) => void,
  ): Promise<Content> => {
    // No worker may prune the entries from here on, because the load needs them at its end.
    building = [{ snapshot: await currentSnapshot(database), token: null }];
    await retainChangeLog(database, dataFolderId, organizationId);
    const loaded = await loadPurchases({
      ...{ database, clickhouse, organizationId, load, signal, onProgress },
      onBegin: (since) => {
        building = [since];
      },
    });
    const content = await bringUpToDate(loaded, id, signal, async (source, content) => {
      if (await hasSameTotals(source, clickhouse, content)) return content;
      throw new Error('count and total value of the loaded purchases differ from Postgres');
    });
    if (typeof content === 'string') throw new Error(`the load must start over: ${content}`);
    return content;
  };

  /** Applies the last changes to a new load, and publishes it. */
  const replacePublished = (content: Content, id: string, signal: AbortSignal): Promise<void> =>
    publishedExclusively(async () => {
      const previous = await read(signal);
      const last = await bringUpToDate(content, id, signal, async (_source, content, now) => {
        // Also without changes: the instant of the data never goes back.
        const watermark = await confirmSnapshot(database, organizationId, now);
        return { ...content, watermark };
      });
      if (typeof last === 'string') throw new Error(`the load must start over: ${last}`);
      writer = { id, number: 0n };
      await publishContent(last, previous);
    });

  return {
    run: (signal) => publishedExclusively(() => run(signal)),

    async build(kind, signal, onProgress) {
      const startedAt = Date.now();
      const id = newIdentifier();
      const name = newLoad(organizationId);
      let isComplete = false;
      unfinishedLoads.add(name);
      try {
        let content: Content;
        if (kind === 'load') content = await load(id, name, signal, onProgress);
        else {
          const generation = published;
          if (generation === null) throw new Error('nothing is published');
          building = [generation.watermark];
          content = await compact(clickhouse, generation, name, signal);
        }
        building = [content.watermark];
        isComplete = true;
        await replacePublished(content, id, signal);
        log.info({ ...size, milliseconds: Date.now() - startedAt }, 'built');
        return true;
      } catch (error) {
        // Rows that still arrive are dropped later, also if the generation may have been published.
        if (!isComplete) await dropLoad(clickhouse, name).catch(() => {});
        throw await reportedError(error);
      } finally {
        unfinishedLoads.delete(name);
        building = [];
      }
    },

    // Implemented with the comparison.
    reread: () => Promise.resolve(false),

    retainedSnapshots: () => [...(published === null ? [] : [published.watermark]), ...building],

    // An interrupted load begins again: either nothing is published, or the change log lacks changes.
    hasUnfinishedBuild: () => Promise.resolve(false),

    publishedGeneration: () => (isInUse ? null : generationOf(published)),
    isDamageToRepair: () => false,
    isPublished: () => isAnyPublished,
    publishedState: () => ({
      asOf: published?.watermark.asOf ?? null,
      delta: size === null ? null : { rows: size.changes, bytes: 0 },
    }),
    close: () => exclusively.onIdle(),
  };
}

const generationOf = (stored: StoredGeneration | null): Generation | null =>
  stored === null ? null : { ...stored.watermark, name: String(stored.number) };

const withBatch = (content: Content, { writer, batch }: Batch): Content => ({
  ...content,
  batches: [...content.batches.filter((each) => each.writer !== writer), { writer, last: batch }],
});

async function hasSameTotals(
  source: pg.ClientBase,
  clickhouse: ClickHouse,
  content: Content,
): Promise<boolean> {
  const { rows } = await source.query<{ totals: string }>(sql`
    select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0) as totals
    from purchases where organization_id = ${content.watermark.organizationId}`);
  const purchases = currentPurchases(content, sql`purchase_value_in_cents as cents`);
  const [row] = await clickhouse.query(sql`
    select concat(toString(count()), ' worth ', toString(sum(toInt128(cents)))) from ${purchases}`);
  return row?.[0] === rows[0]?.totals;
}
