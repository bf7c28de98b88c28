import type { Database } from '../../src/postgres/pool.ts';
import { readLastPoll } from '../../src/purchase-store/up-to-date.ts';
import { type RunningWorker, readWorkers } from '../commands/worker-lock.ts';
import { shardName } from '../shard.ts';
import { readWorkerFailure, type WorkerFailure } from './worker-failure.ts';

export type WorkerStatus = RunningWorker & {
  /** When the worker last recorded a poll of the change log, by Postgres's clock. */
  readonly polledAt: Date | null;
  /** The failure of the whole worker, its remedy and its start. */
  readonly failure: WorkerFailure | null;
};

/** A poll takes milliseconds. Pruning, or an overloaded processor, may take seconds. */
const pollOverdueMs = 10_000;

/** The workers of the data folder, with their failures. */
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
    const polledAt = readLastPoll(dataDirectory, shardName(worker.shard));
    if (worker.isCommand) return { ...worker, polledAt, failure: null };
    const notPolling = whyNotPolling(
      worker,
      polledAt,
      now.getTime() - pollOverdueMs - 2 * pollIntervalMs,
    );
    return {
      ...worker,
      polledAt,
      failure: readWorkerFailure(dataDirectory, worker.shard) ?? notPolling,
    };
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
