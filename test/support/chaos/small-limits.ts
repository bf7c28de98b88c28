import { createInstance } from '../../../src/duckdb/connection.ts';
import { prepareSpill, spillDirectory } from '../../../src/duckdb/spill.ts';
import { untilStopped } from '../../../src/process/stop-signals.ts';
import { readSettings } from '../../../src/settings/settings.ts';
import { createFileBuilder } from '../../../sync/builds/file-builder.ts';
import type { openWorkerStore } from '../../../sync/commands/stores.ts';
import { followChanges, withWorkerContext } from '../../../sync/commands/worker-process.ts';
import { createFileStore } from '../../../sync/files/file-store.ts';
import { takeOwnership } from '../../../sync/files/ownership.ts';

// The worker with small limits: loads have many steps, and bases, compactions and builds of bulk
// changes are frequent, so that faults hit all of their steps.
const limits = {
  loadChunkRows: 150,
  changesRetentionMs: 86_400_000,
  changesMaxBytes: Number(process.env.CHANGES_MAX_BYTES ?? 0),
  maxPurchasesWithoutBase: Number(process.env.MAX_PURCHASES_WITHOUT_BASE ?? 0),
  minUnsavedChanges: 10,
};
const maxTickChanges = Number(process.env.MAX_TICK_CHANGES ?? 50_000);
const maxLogRecords = Number(process.env.MAX_LOG_RECORDS ?? 100);

const openWithLimits: typeof openWorkerStore = async ({ settings, database, shard }) => {
  const { dataDirectory, duckdbMemoryLimit: memoryLimit } = settings;
  prepareSpill(dataDirectory);
  const instance = await createInstance({
    threads: 1,
    memoryLimit,
    dataDirectory,
    spillDirectory: spillDirectory(dataDirectory, 'sync'),
  });
  try {
    const ownership = await takeOwnership(instance, dataDirectory, shard);
    const store = createFileStore({ database, dataDirectory, ...limits });
    const builder = createFileBuilder(store, { database, dataDirectory, instance, ...limits });
    const close = () => ownership.release().finally(() => instance.closeSync());
    return { store, builder, instance, close };
  } catch (error) {
    instance.closeSync();
    throw error;
  }
};

const stopped = untilStopped();
await withWorkerContext(readSettings(), { server: 'primary', stopped }, (context) =>
  followChanges(context, { maxTickChanges, maxLogRecords }, stopped, openWithLimits),
);
