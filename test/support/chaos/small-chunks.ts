import { readSettings } from '../../../src/settings.ts';
import { untilStopped } from '../../../src/stop-signals.ts';
import { followChanges, withWorkerContext } from '../../../sync/commands/worker-process.ts';

// The worker with many steps in a load and frequent compactions, so that faults hit between steps.
const stopped = untilStopped();
await withWorkerContext(readSettings(), { server: 'primary', stopped }, (context) =>
  followChanges(context, { loadChunkRows: 150, maxDeltaRows: 100 }, stopped),
);
