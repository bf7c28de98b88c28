import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../src/process/json-file.ts';
import { replaceFileSync } from '../../src/process/replace-file.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';

/** A failure that the worker retries. */
const failure = z.object({
  message: z.string(),
  advice: z.string(),
  at: z.iso.datetime(),
  attempts: z.number(),
  retryAt: z.iso.datetime(),
});

/** The states of an organization, as `status` and metrics show them. sync/organization.ts has their meaning. */
export const organizationStates = [
  /** Each tick includes it. */
  'live',
  'waiting to load',
  'loading',
  'rebuilding',
  'compacting',
  'catching up',
  /** The last attempt failed, and no later one has succeeded. */
  'failed',
] as const;
export type OrganizationState = (typeof organizationStates)[number];

const organizationReport = z.object({
  state: z.enum(organizationStates),
  progress: z
    .object({
      loaded: z.number(),
      expected: z.number(),
      /** Since the load began or resumed. */
      rowsPerSecond: z.number(),
    })
    .nullable(),
  /** The failure of the last attempt; null if it succeeded. */
  failure: failure.nullable(),
});
export type OrganizationReport = z.output<typeof organizationReport>;

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
