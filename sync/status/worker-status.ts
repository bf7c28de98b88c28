import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { readJsonFile } from '../../src/process/json-file.ts';
import { replaceFileSync } from '../../src/process/replace-file.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';
import type { Tick } from '../../src/purchase-store/ticks/published-tick.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import { type RunningWorker, readWorkers } from '../lock/worker-lock.ts';
import { organizationReport } from '../organization-report.ts';

export type WorkerStatus = RunningWorker & {
  /** The last poll whose tick was published, by Postgres's clock. Its instant may be earlier. */
  readonly polledAt: Date | null;
  /** The failure of the whole worker, its remedy and its start. */
  readonly failure: WorkerFailure | null;
};

/** A poll takes milliseconds. Pruning, or an overloaded processor, may take seconds. */
const pollOverdueMs = 10_000;

/** The workers of the data folder, with their failures. */
export async function readWorkerStatus(options: {
  readonly database: Database;
  readonly dataDirectory: string;
  readonly dataFolderId: string;
  readonly pollIntervalMs: number;
  /** The last ticks of all workers; null if they cannot be read. */
  readonly ticks: readonly Tick[] | null;
}): Promise<WorkerStatus[]> {
  const { database, dataDirectory, dataFolderId, pollIntervalMs, ticks } = options;
  const workers = await readWorkers(database, dataFolderId);
  const { rows } = await database.query<{ now: Date }>('select clock_timestamp() as now');
  const now = rows[0]?.now ?? new Date();
  return workers.map((worker) => {
    const { number, of } = worker.shard;
    const tick = ticks?.find(({ shard }) => shard.number === number && shard.of === of);
    const polledAt =
      tick === undefined ? null : new Date(Number((tick.polledAt ?? tick.asOf) / 1000n));
    if (worker.isCommand) return { ...worker, polledAt, failure: null };
    const limit = now.getTime() - pollOverdueMs - 2 * pollIntervalMs;
    const reported = readWorkerState(dataDirectory, worker.shard)?.failure ?? null;
    if (ticks === null) return { ...worker, polledAt, failure: reported };
    return { ...worker, polledAt, failure: reported ?? whyNotPolling(worker, polledAt, limit) };
  });
}

/** Null if the worker has polled or started after `limit`, in milliseconds since 1970. */
function whyNotPolling(
  { since }: RunningWorker,
  polledAt: Date | null,
  limit: number,
): WorkerFailure | null {
  const last = polledAt !== null && (since === null || polledAt > since) ? polledAt : since;
  // The role may not see when the worker started, and the worker has not polled yet.
  if (last === null) return null;
  if (last.getTime() > limit) return null;
  const moment = last.toISOString();
  return {
    message:
      last === since
        ? `The worker has not polled the change log since its start at ${moment}.`
        : `The worker has not polled the change log since ${moment}.`,
    advice:
      "Read the worker's log: the worker gets no response from Postgres, or cannot write to " +
      'DATA_DIR. If the worker does not recover, restart it.',
    since: moment,
  };
}

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
