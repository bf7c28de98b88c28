import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../src/process/json-file.ts';
import { replaceFileSync } from '../../src/process/replace-file.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import { organizationReport } from '../organization-report.ts';

const workerFailure = z.object({
  message: z.string(),
  advice: z.string(),
  since: z.iso.datetime(),
});
export type WorkerFailure = z.output<typeof workerFailure>;

/** The state of a worker, in a file that outlives it and that `status` reads. */
const workerState = z.object({
  /** The oldest failure of the whole worker; null if there is none. */
  failure: workerFailure.nullable(),
  /** By id. Others are live, or nothing of them is published yet. */
  organizations: z.record(z.string(), organizationReport),
});
type WorkerState = z.output<typeof workerState>;

const stateFile = (dataDirectory: string, shard: Shard): string =>
  join(purchasesDirectory(dataDirectory), 'workers', `${shardName(shard)}.json`);

/** Null before the worker has reported anything, or if the file cannot be read. */
export const readWorkerState = (dataDirectory: string, shard: Shard): WorkerState | null =>
  readJsonFile(stateFile(dataDirectory, shard), workerState);

export function writeWorkerState(dataDirectory: string, shard: Shard, state: WorkerState): void {
  const path = stateFile(dataDirectory, shard);
  mkdirSync(dirname(path), { recursive: true });
  replaceFileSync(path, `${JSON.stringify(state)}\n`);
}
