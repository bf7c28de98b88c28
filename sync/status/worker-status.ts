import type { Database } from '../../src/postgres/pool.ts';
import { readLastLook } from '../../src/purchase-store/up-to-date.ts';
import { type RunningWorker, readWorkers } from '../commands/worker-lock.ts';
import { shardName } from '../shard.ts';
import { readWorkerFailure, type WorkerFailure } from './worker-failure.ts';

export type WorkerStatus = RunningWorker & {
  /** When the worker last recorded a look at the change log, by Postgres's clock. */
  readonly lookedAt: Date | null;
  /** What the worker as a whole fails at, what to do, and since when. */
  readonly failure: WorkerFailure | null;
};

/** A look takes milliseconds; pruning, or a full processor, may take seconds. */
const silentAfterMs = 10_000;

/** Every worker of the data folder, with its own failure. */
export async function readWorkerStatus(
  database: Database,
  dataDirectory: string,
  dataFolderId: string,
  pollIntervalMs: number,
): Promise<WorkerStatus[]> {
  const workers = await readWorkers(database, dataFolderId);
  const { rows } = await database.query<{ now: Date }>('select clock_timestamp() as now');
  const now = rows[0]?.now ?? new Date();
  return workers.map((worker) => {
    const lookedAt = readLastLook(dataDirectory, shardName(worker.shard));
    if (worker.isCommand) return { ...worker, lookedAt, failure: null };
    const silence = whySilent(worker, lookedAt, now.getTime() - silentAfterMs - 2 * pollIntervalMs);
    return {
      ...worker,
      lookedAt,
      failure: readWorkerFailure(dataDirectory, worker.shard) ?? silence,
    };
  });
}

/** Null where the worker has looked, or has started, after `limit`; milliseconds since 1970. */
function whySilent(
  { since }: RunningWorker,
  lookedAt: Date | null,
  limit: number,
): WorkerFailure | null {
  const last = lookedAt !== null && (since === null || lookedAt > since) ? lookedAt : since;
  // Nothing is known of a worker that the role may not see and that has not looked yet.
  if (last === null) return null;
  if (last.getTime() > limit) return null;
  const moment = last.toISOString();
  return {
    message:
      last === since
        ? `The worker has not looked at the change log since it started at ${moment}.`
        : `The worker has not looked at the change log since ${moment}.`,
    advice:
      "Read the worker's log: it does not get an answer, or cannot write to DATA_DIR. " +
      'If it does not recover, start it again.',
    since: moment,
  };
}
