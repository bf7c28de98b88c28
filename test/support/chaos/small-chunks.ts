import { readSettings } from '../../../src/settings.ts';
import { untilStopped } from '../../../src/stop-signals.ts';
import { followChanges, withWorkplace } from '../../../sync/worker-process.ts';

// The worker's program, but its loads take many steps: the next blow falls between two of them.
const stopped = untilStopped();
await withWorkplace(readSettings(), { server: 'primary', stopped }, (workplace) =>
  followChanges(workplace, { loadChunkRows: 150 }, stopped),
);
