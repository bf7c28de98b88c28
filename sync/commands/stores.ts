import type { DuckDBInstance } from '@duckdb/node-api';
import type { Logger } from 'pino';
import { createInstance, type DuckDBOptions } from '../../src/duckdb/connection.ts';
import { prepareSpill, spillDirectory } from '../../src/duckdb/spill.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { workerShares } from '../../src/settings/memory-needs.ts';
import { clickHouseOptions, type Settings } from '../../src/settings/settings.ts';
import type { Builder } from '../builds/builder.ts';
import { createFileBuilder, type FileBuilderOptions } from '../builds/file-builder.ts';
import { createClickHouseBuilder } from '../clickhouse/clickhouse-builder.ts';
import { readPublishedStatus } from '../clickhouse/clickhouse-status.ts';
import { createClickHouseStore } from '../clickhouse/clickhouse-store.ts';
import { openPublishedContents } from '../clickhouse/content.ts';
import { openForWorker } from '../clickhouse/worker-connection.ts';
import { createFileStore } from '../files/file-store.ts';
import { takeOwnership } from '../files/ownership.ts';
import { type ReadPublished, readPublishedFiles } from '../status/published-status.ts';
import type { Store } from '../tick/store.ts';
import type { PublishedContents } from '../verification/published-content.ts';
import { openPublishedFiles } from '../verification/published-file.ts';

export type WorkerStore = {
  readonly store: Store;
  readonly builder: Builder;
  /** Null if the store is ClickHouse. */
  readonly instance: DuckDBInstance | null;
  close(): Promise<void>;
};

/** Limits of files, smaller in tests. */
type FileLimits = Pick<
  FileBuilderOptions,
  'loadChunkRows' | 'maxPurchasesWithoutBase' | 'minUnsavedChanges'
>;

/** Opens the store of PURCHASES_ENGINE. */
export async function openWorkerStore(
  context: {
    readonly settings: Settings;
    readonly database: Database;
    readonly folderId: string;
    readonly log: Logger;
    readonly shard: Shard;
  },
  limits: FileLimits = {},
): Promise<WorkerStore> {
  const { settings, database, folderId, log, shard } = context;
  const { dataDirectory, duckdbThreads: buildThreads } = settings;
  const { changesRetentionMs, changesMaxBytes } = settings;
  const folder = { database, dataDirectory, dataFolderId: folderId };
  const server = clickHouseOptions(settings);
  if (server !== null) {
    const clickhouse = openForWorker(server);
    const store = createClickHouseStore({ ...folder, clickhouse, shard, log, changesRetentionMs });
    const builder = createClickHouseBuilder(store, { database, clickhouse });
    return { store, builder, instance: null, close: () => clickhouse.close() };
  }
  prepareSpill(dataDirectory);
  const instance = await createInstance({
    threads: buildThreads,
    memoryLimit: workerShares(settings).builds,
    dataDirectory,
    spillDirectory: spillDirectory(dataDirectory, 'sync'),
  });
  const store = createFileStore({ ...folder, shard, changesRetentionMs, changesMaxBytes });
  const builder = createFileBuilder(store, { ...folder, ...limits, instance });
  const ownership = await takeOwnership(instance, dataDirectory, shard).catch((error) => {
    instance.closeSync();
    throw error;
  });
  return {
    store,
    builder,
    instance,
    async close() {
      await ownership.release().finally(() => instance.closeSync());
    },
  };
}

/** Opens the published generations of an organization, for a comparison with Postgres. */
export const publishedContentsOf =
  (settings: Settings, limits: Partial<DuckDBOptions> = {}) =>
  async (organizationId: bigint): Promise<PublishedContents> => {
    const server = clickHouseOptions(settings);
    if (server !== null) {
      const clickhouse = openForWorker(server);
      return openPublishedContents(clickhouse, organizationId, () => clickhouse.close());
    }
    // A separate instance, because the files may be damaged.
    return openPublishedFiles(settings.dataDirectory, organizationId, {
      threads: settings.duckdbThreads,
      memoryLimit: settings.duckdbMemoryLimit,
      spillDirectory: spillDirectory(settings.dataDirectory, 'verify'),
      ...limits,
    });
  };

/** Reads the status of the published generations. ClickHouse must respond within `timeoutMs`. */
export async function withPublishedStatus<Result>(
  settings: Settings,
  timeoutMs: number,
  work: (readPublished: ReadPublished) => Promise<Result>,
): Promise<Result> {
  const server = clickHouseOptions(settings);
  if (server === null) return work(readPublishedFiles(settings.dataDirectory));
  const clickhouse = openForWorker(server, timeoutMs);
  try {
    return await work(readPublishedStatus(clickhouse));
  } finally {
    await clickhouse.close();
  }
}
