import { readSettings } from '../../../src/settings.ts';
import { untilStopped } from '../../../src/stop-signals.ts';
import { followChanges, withWorkerContext } from '../../../sync/commands/worker-process.ts';

// The worker's program, but loads take many steps, and compactions are frequent: a fault falls between two of them.
const stopped = untilStopped();
await withWorkerContext(readSettings(), { server: 'primary', stopped }, (context) =>
  followChanges(context, { loadChunkRows: 150, maxDeltaRows: 100 }, stopped),
);
