import { setTimeout as sleep } from 'node:timers/promises';
import { encodeId } from '../../src/domain/public-id.ts';
import { destroyConnections } from '../../src/postgres/pool.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { isOfShard } from '../../src/purchase-store/shard.ts';
import { type RunningWorker, readWorkers } from '../lock/worker-lock.ts';
import type { Repairs } from '../verification/repair.ts';
import { type RepairRequest, requestFromWorker } from '../worker/requests.ts';
import { type WorkerContext, withOnlyWorker } from './worker-process.ts';

const responseTimeoutMs = 5_000;
const maxUnresponsiveMs = 10_000;

/**
 * The repairs of a command. Without a running worker, the command takes the lock and repairs by
 * itself. Otherwise the command sends a request to the worker. Failures are OperatorErrors.
 */
export function repairsOf(
  context: WorkerContext,
  organizationId: bigint,
  stopped: AbortSignal,
): Repairs {
  const { database, folderId, settings } = context;
  let respondedAt = performance.now();

  const hasOrganization = ({ shard }: RunningWorker) => isOfShard(organizationId, shard);

  /** Another command may hold the lock, which takes no requests and ends soon. */
  const isWorkerRunning = async (): Promise<boolean> => {
    const timeout = sleep(responseTimeoutMs, null, { ref: false });
    const workers = await Promise.race([readWorkers(database, folderId), timeout]).catch(
      () => null,
    );
    if (workers !== null) {
      respondedAt = performance.now();
      return workers.some(hasOrganization);
    }
    // A statement without a response would keep the pool open.
    destroyConnections(database);
    // While Postgres fails, neither worker nor command can repair.
    if (performance.now() - respondedAt < maxUnresponsiveMs) return true;
    throw new OperatorError(
      `Postgres has not responded for ${maxUnresponsiveMs / 1000} s. ` +
        'The worker keeps the request, and repairs once Postgres responds.',
    );
  };

  /** Rejects if workers of other shards only are running. */
  const requireNoOtherShards = async (): Promise<void> => {
    const workers = await readWorkers(database, folderId);
    if (workers.length === 0 || workers.some(hasOrganization)) return;
    const organization = encodeId('organization', organizationId);
    throw new OperatorError(
      `No worker has ${organization}: start the worker of the missing shard.`,
    );
  };

  /** Replaces the error of what was stopped. */
  const orStopped =
    (message: string) =>
    (error: unknown): never => {
      throw stopped.aborted ? new OperatorError(message) : error;
    };

  /** False if no worker runs. */
  const sendToWorker = async (request: RepairRequest): Promise<boolean> => {
    respondedAt = performance.now();
    const response = await requestFromWorker(
      settings.dataDirectory,
      request,
      isWorkerRunning,
      stopped,
    ).catch(orStopped('Stopped. The worker completes the repair nonetheless.'));
    if (response === null) {
      await requireNoOtherShards();
      return false;
    }
    if (response.failure === null) return true;
    const failed = request.kind === 'rebuild' ? 'rebuild failed, and is retried' : 'repair failed';
    throw new OperatorError(`The worker's ${failed}: ${response.failure}`);
  };

  const repairOrRequest = async (
    work: (repairs: Repairs) => Promise<void>,
    request: RepairRequest,
  ): Promise<void> => {
    for (let isDone = false; !isDone; ) {
      isDone = true;
      await withOnlyWorker(
        context,
        async (worker) => {
          const stop = () => void worker.close();
          if (stopped.aborted) stop();
          stopped.addEventListener('abort', stop);
          const repairing = work(worker.repairsFor(organizationId));
          await repairing.catch(orStopped('Stopped before the end of the repair.'));
        },
        async () => {
          isDone = await sendToWorker(request);
        },
      );
    }
  };

  return {
    reread: (ids) =>
      repairOrRequest(({ reread }) => reread(ids), {
        kind: 'reread',
        organizationId,
        ids: [...ids],
      }),
    rebuild: (isWrong) =>
      repairOrRequest(({ rebuild }) => rebuild(isWrong), {
        kind: 'rebuild',
        organizationId,
        isWrong,
      }),
  };
}
