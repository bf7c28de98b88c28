import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBInstance } from '@duckdb/node-api';
import type pg from 'pg';
import type { Logger } from 'pino';
import { layoutVersion } from '../src/engines/duckdb/layout.ts';
import {
  type PublishedGeneration,
  readPublished,
} from '../src/engines/duckdb/published-generation.ts';
import { type Database, withSnapshot } from '../src/postgres/pool.ts';
import { appendStaged, applyStaged, completeLoad, type Watermark } from './apply.ts';
import { closeLiveFile, type LiveFile, openLiveFile, startAnew } from './live-file.ts';
import { type Publication, publish } from './publish.ts';
import {
  logReachesBackTo,
  type SourceSnapshot,
  streamChanges,
  streamPurchases,
  takeSnapshot,
} from './source.ts';
import { createStaging, dropStaging, type StagedPurchase, stage } from './staging.ts';

export type OrganizationSync = {
  /**
   * Brings the organization's purchases up to what Postgres holds now and
   * publishes them where anything changed; resolves with what is published.
   * A failure leaves published what was published, and the next call goes on
   * from the last thing that was committed. An aborted signal is such a failure.
   */
  run(signal: AbortSignal): Promise<Publication>;
  /** The snapshot that the last completed run applied; null before the first. */
  watermark(): Watermark | null;
  close(): Promise<void>;
};

export type OrganizationSyncOptions = {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly log: Logger;
};

const loadBatchRows = 122_880;

export function createOrganizationSync(options: OrganizationSyncOptions): OrganizationSync {
  const { organizationId, database, instance, dataDirectory, log } = options;
  let live: LiveFile | null = null;

  const bringUpToDate = async (file: LiveFile, signal: AbortSignal): Promise<void> => {
    await withSnapshot(database, async (source) => {
      const now = await takeSnapshot(source);
      const reason = await whyLoad(source, file.watermark, now, organizationId);
      if (reason === null) await applyChanges(source, file, now, signal, log);
      else {
        log.info({ reason }, 'loading all purchases');
        await load(source, file, { ...now, organizationId }, signal, log);
      }
    });
  };

  return {
    async run(signal) {
      signal.throwIfAborted();
      live ??= await openLiveFile(instance, dataDirectory, organizationId);
      try {
        await bringUpToDate(live, signal);
        const { watermark } = live;
        if (watermark === null) throw new Error('the load ended without a watermark');
        const published = readPublishedIfUsable(live.directory);
        if (published !== null && shows(published, watermark))
          return { generation: published, copyMs: 0 };
        const publication = await publish(live, watermark);
        const { file, purchases } = publication.generation;
        log.debug({ file, purchases, copyMs: Math.round(publication.copyMs) }, 'published');
        return publication;
      } catch (error) {
        // Whatever state the file is in, opening it again finds the committed one.
        const failed = live;
        live = null;
        await closeLiveFile(failed).catch(() => {});
        throw error;
      }
    },

    watermark: () => live?.watermark ?? null,

    async close() {
      if (live !== null) await closeLiveFile(live);
      live = null;
    },
  };
}

/** Why changes are not enough and the table itself must be read; null where they are. */
async function whyLoad(
  source: pg.ClientBase,
  watermark: Watermark | null,
  now: SourceSnapshot,
  organizationId: bigint,
): Promise<string | null> {
  if (watermark === null) return 'first load';
  if (watermark.systemIdentifier !== now.systemIdentifier) return 'another database';
  const reaches = await logReachesBackTo(source, organizationId, watermark.snapshot);
  return reaches ? null : 'the change log no longer reaches back';
}

async function applyChanges(
  source: pg.ClientBase,
  live: LiveFile,
  now: SourceSnapshot,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  if (live.watermark === null) throw new Error('changes need a watermark to start from');
  const { organizationId, snapshot } = live.watermark;
  await createStaging(live.connection);
  const changes = streamChanges(source, organizationId, snapshot);
  const count = await closing(changes, () =>
    stage(live.connection, changes, Number.POSITIVE_INFINITY, signal),
  );
  if (count === 0) return;
  const watermark = { ...now, organizationId };
  await applyStaged(live.connection, live.catalog, watermark);
  live.watermark = watermark;
  log.debug({ changes: count }, 'applied changes');
}

/** Reads the whole table. Until the end the file has no watermark, and so counts as empty. */
async function load(
  source: pg.ClientBase,
  live: LiveFile,
  watermark: Watermark,
  signal: AbortSignal,
  log: Logger,
): Promise<void> {
  const startedAt = Date.now();
  await startAnew(live);
  const purchases = staged(streamPurchases(source, watermark.organizationId));
  let total = 0;
  await closing(purchases, async () => {
    for (let count = loadBatchRows; count === loadBatchRows; total += count) {
      await createStaging(live.connection);
      count = await stage(live.connection, purchases, loadBatchRows, signal);
      await appendStaged(live.connection, live.catalog);
    }
  });
  await dropStaging(live.connection);
  await completeLoad(live.connection, live.catalog, watermark);
  live.watermark = watermark;
  log.info({ purchases: total, milliseconds: Date.now() - startedAt }, 'loaded');
}

/** Closes the stream whatever happens: its connection can do nothing else before. */
async function closing<Result>(
  stream: AsyncGenerator<unknown>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } finally {
    await stream.return(undefined);
  }
}

async function* staged(
  rows: ReturnType<typeof streamPurchases>,
): AsyncGenerator<StagedPurchase, void> {
  for await (const row of rows) yield { id: row[0] as bigint, row };
}

/** What is published, unless it cannot be read or served: then publishing replaces it. */
function readPublishedIfUsable(directory: string): PublishedGeneration | null {
  try {
    const published = readPublished(directory);
    if (published === null || published.layoutVersion !== layoutVersion) return null;
    return existsSync(join(directory, published.file)) ? published : null;
  } catch {
    return null;
  }
}

function shows(published: PublishedGeneration, watermark: Watermark): boolean {
  return (
    published.snapshot === watermark.snapshot &&
    published.systemIdentifier === watermark.systemIdentifier
  );
}
