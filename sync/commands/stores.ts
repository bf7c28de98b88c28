import type { DuckDBInstance } from '@duckdb/node-api';
import type { Logger } from 'pino';
import { createInstance, type DuckDBOptions } from '../../src/duckdb/connection.ts';
import { maxIdle } from '../../src/duckdb/memory.ts';
import { prepareSpill, spillDirectory } from '../../src/duckdb/spill.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { clickHouseOptions, type Settings } from '../../src/settings.ts';
import { openForWorker } from '../clickhouse/connection.ts';
import { openPublishedContents } from '../clickhouse/content.ts';
import { readPublishedStatus } from '../clickhouse/status.ts';
import { createClickHouseStore } from '../clickhouse/store.ts';
import { threadsOfRuns } from '../files/build-threads.ts';
import { createFileStore } from '../files/store.ts';
import type { Store } from '../schedule/store.ts';
import { type ReadPublished, readPublishedFiles } from '../status/published.ts';
import type { PublishedContents } from '../verification/published-content.ts';
import { openPublishedFiles } from '../verification/published-file.ts';

/** Opening a file takes a small part of the time of publishing, so unused files may be closed. */
const memoryOfIdleFile = 4 * 2 ** 20;

type OpenStore = {
  readonly store: Store;
  /** Null if the store is ClickHouse. */
  readonly instance: DuckDBInstance | null;
  close(): Promise<void>;
};

/** Opens the store of PURCHASES_ENGINE. */
export async function openStore(context: {
  readonly settings: Settings;
  readonly database: Database;
  readonly folderId: string;
  readonly log: Logger;
}): Promise<OpenStore> {
  const { settings, database, folderId, log } = context;
  const { dataDirectory, duckdbMemoryLimit, duckdbThreads: buildThreads } = settings;
  const folder = { database, dataDirectory, dataFolderId: folderId };
  const server = clickHouseOptions(settings);
  if (server !== null) {
    const clickhouse = openForWorker(server);
    const store = createClickHouseStore({ ...folder, clickhouse, log });
    return { store, instance: null, close: () => clickhouse.close() };
  }
  prepareSpill(dataDirectory);
  const instance = await createInstance({
    threads: threadsOfRuns,
    memoryLimit: duckdbMemoryLimit,
    spillDirectory: spillDirectory(dataDirectory, `sync-${process.pid}`),
  });
  const maxIdleFiles = maxIdle(duckdbMemoryLimit, memoryOfIdleFile);
  const store = createFileStore({ ...folder, instance, maxIdleFiles, buildThreads });
  return { store, instance, close: async () => instance.closeSync() };
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
      spillDirectory: spillDirectory(settings.dataDirectory, `verify-${process.pid}`),
      ...limits,
    });
  };

/** Reads the status of the published generations. */
export async function withPublishedStatus<Result>(
  settings: Settings,
  work: (readPublished: ReadPublished) => Promise<Result>,
): Promise<Result> {
  const server = clickHouseOptions(settings);
  if (server === null) return work(readPublishedFiles(settings.dataDirectory));
  const clickhouse = openForWorker(server);
  try {
    return await work(readPublishedStatus(clickhouse));
  } finally {
    await clickhouse.close();
  }
}
