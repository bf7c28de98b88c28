import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { Registry } from 'prom-client';
import { createInstance, type DuckDBOptions } from '../../src/duckdb/connection.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { readMappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import type { Builder } from '../../sync/builds/builder.ts';
import { createFileBuilder, type FileBuilderOptions } from '../../sync/builds/file-builder.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import {
  createFileStore,
  type FileStore,
  type FileStoreOptions,
} from '../../sync/files/file-store.ts';
import { createWorkerMetrics } from '../../sync/metrics/metrics.ts';
import { createWorker, type Worker, type WorkerOptions } from '../../sync/worker/worker.ts';
import { createRecordedLog, recordMetrics } from './logged-lines.ts';

export type TestWorker = Worker & {
  /** Publishes the purchases of every organization. */
  syncAll(): Promise<void>;
};

/** What a worker writes with. A test may replace methods. */
export type WorkerParts = { readonly store: FileStore; readonly builder: Builder };

export type TestWorkerOptions = Partial<
  WorkerOptions &
    Pick<FileStoreOptions, 'changesRetentionMs' | 'changesMaxBytes'> &
    Pick<FileBuilderOptions, 'loadChunkRows' | 'maxPurchasesWithoutBase' | 'minUnsavedChanges'> & {
      replace: (parts: WorkerParts) => Partial<WorkerParts>;
    }
>;

export const duckdbOptions = (dataDirectory: string, name = 'test'): DuckDBOptions => ({
  threads: 2,
  memoryLimit: '512MiB',
  dataDirectory,
  spillDirectory: join(dataDirectory, 'spill', name),
});

/** A sync worker in the process of the test. */
export async function createTestWorker(
  database: Database,
  dataDirectory: string,
  options: TestWorkerOptions = {},
): Promise<TestWorker> {
  mkdirSync(dataDirectory, { recursive: true });
  const instance = await createInstance(duckdbOptions(dataDirectory));
  const folder = { database, dataDirectory, dataFolderId: await dataFolderId(dataDirectory) };
  const registry = new Registry();
  const metrics = createWorkerMetrics(registry);
  const store = createFileStore({ ...folder, ...options });
  const builder = createFileBuilder(store, { ...folder, instance, ...options });
  const worker = createWorker({
    ...folder,
    store,
    builder,
    ...options.replace?.({ store, builder }),
    concurrency: 2,
    pollIntervalMs: 20,
    log: createRecordedLog(),
    metrics,
    ...options,
  });
  metrics.followed({
    state: worker.state,
    instance,
    readMapping: () => readMappingStatus(database),
  });
  return {
    ...worker,
    syncAll: async () => worker.once((await listOrganizations(database)).map(({ id }) => id)),
    close: async () => {
      await worker.close();
      await recordMetrics(registry);
      instance.closeSync();
    },
  };
}

/** Follows changes until the returned function is called. */
export function follow(worker: Pick<Worker, 'run'>): () => Promise<void> {
  const stopping = new AbortController();
  const running = worker.run(stopping.signal);
  return async () => {
    stopping.abort();
    await running;
  };
}

/** Publishes the purchases of every organization with a temporary worker. */
export async function syncOnce(
  database: Database,
  dataDirectory: string,
  options: TestWorkerOptions = {},
): Promise<void> {
  const worker = await createTestWorker(database, dataDirectory, options);
  await worker.syncAll().finally(() => worker.close());
}
