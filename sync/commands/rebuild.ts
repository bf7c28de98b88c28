import { setTimeout as sleep } from 'node:timers/promises';
import { encodeId } from '../../src/domain/public-id.ts';
import { destroyConnections } from '../../src/postgres/connection/pool.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { isOfShard } from '../../src/purchase-store/ticks/shard.ts';
import { readWorkers } from '../lock/worker-lock.ts';
import { requestFromWorker } from '../worker/rebuild-requests.ts';
import { type WorkerContext, withOnlyWorker } from './worker-process.ts';

const responseTimeoutMs = 5_000;
const maxUnresponsiveMs = 10_000;

/**
 * Rebuilds an organization for a command. Without a running worker, the command takes the lock and
 * rebuilds by itself. Otherwise the command sends a request to the worker. Failures are OperatorErrors.
 */
export async function rebuildOrganization(
  context: WorkerContext,
  organizationId: bigint,
  {
    differsFromPostgres,
    stopped,
  }: { readonly differsFromPostgres: boolean; readonly stopped: AbortSignal },
): Promise<void> {
  const { database, folderId, settings } = context;
  let respondedAt = performance.now();

  /** Another command may hold the lock, which takes no requests and ends soon. */
  const isWorkerRunning = async (): Promise<boolean> => {
    const timeout = sleep(responseTimeoutMs, null, { ref: false });
    const workers = await Promise.race([readWorkers(database, folderId), timeout]).catch(
      () => null,
    );
    if (workers !== null) {
      respondedAt = performance.now();
      return workers.some(({ shard }) => isOfShard(organizationId, shard));
    }
    // A statement without a response would keep the pool open.
    destroyConnections(database);
    // While Postgres fails, neither worker nor command can rebuild.
    if (performance.now() - respondedAt < maxUnresponsiveMs) return true;
    throw new OperatorError(
      `Postgres has not responded for ${maxUnresponsiveMs / 1000} s. ` +
        'The worker keeps the request, and rebuilds once Postgres responds.',
    );
  };

  /** Replaces an error that the stop of the command has caused. */
  const orStopped =
    (message: string) =>
    (error: unknown): never => {
      throw stopped.aborted ? new OperatorError(message) : error;
    };

  /** False if no worker runs. */
  const sendToWorker = async (): Promise<boolean> => {
    respondedAt = performance.now();
    const response = await requestFromWorker(
      settings.dataDirectory,
      { organizationId, differsFromPostgres },
      isWorkerRunning,
      stopped,
    ).catch(orStopped('Stopped. The worker completes the rebuild nonetheless.'));
    if (response === null) {
      await requireNoOtherShards(context, organizationId);
      return false;
    }
    if (response.failure === null) return true;
    throw new OperatorError(`The worker's rebuild failed, and is retried: ${response.failure}`);
  };

  let isDone: boolean;
  do {
    isDone = true;
    await withOnlyWorker(
      context,
      async (worker) => {
        const stop = () => void worker.close();
        if (stopped.aborted) stop();
        stopped.addEventListener('abort', stop);
        const rebuilding = worker.rebuild(organizationId, differsFromPostgres);
        await rebuilding.catch(orStopped('Stopped before the end of the rebuild.'));
      },
      async () => {
        isDone = await sendToWorker();
      },
    );
  } while (!isDone);
}

/** Rejects if workers of other shards only are running. */
async function requireNoOtherShards(
  { database, folderId }: WorkerContext,
  organizationId: bigint,
): Promise<void> {
  const workers = await readWorkers(database, folderId);
  if (workers.length === 0) return;
  if (workers.some(({ shard }) => isOfShard(organizationId, shard))) return;
  const organization = encodeId('organization', organizationId);
  throw new OperatorError(`No worker has ${organization}: start the worker of the missing shard.`);
}
