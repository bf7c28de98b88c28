import { untilStopped } from '../../src/process/stop-signals.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { openWorkerStore, type WorkerStore } from '../../sync/commands/stores.ts';
import {
  followChanges,
  type WorkerContext,
  withWorkerContext,
} from '../../sync/commands/worker-process.ts';

/** Changes of a tick; more are built. */
export const maxTickChanges = 500;
/** Changes since a load or compaction; more are compacted. */
export const maxLogRecords = 100;

const limits = { loadChunkRows: 150, maxPurchasesWithoutBase: 1_000, minUnsavedChanges: 10 };

/** Follows changes with many steps in a load and frequent builds, so that faults hit between steps. */
export async function followInSmallSteps(
  replace: (opened: WorkerStore, context: WorkerContext) => WorkerStore = (opened) => opened,
): Promise<void> {
  const stopped = untilStopped();
  await withWorkerContext(readSettings(), { server: 'primary', stopped }, (context) =>
    followChanges(context, { maxTickChanges, maxLogRecords }, stopped, async (folder) =>
      replace(await openWorkerStore(folder, limits), context),
    ),
  );
}
