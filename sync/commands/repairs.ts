import { encodeId } from '../../src/domain/public-id.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { isOfShard } from '../shard.ts';
import type { Repairs } from '../verification/repair.ts';
import { askWorker, type Request } from './requests.ts';
import { type RunningWorker, readWorkers } from './worker-lock.ts';
import { type WorkerContext, withOnlyWorker } from './worker-process.ts';

/**
 * What a command can do for an organization: as the folder's worker where there is
 * none, and else by asking the one there is. Each rejects with OperatorError where
 * it fails.
 */
export function repairsOf(
  context: WorkerContext,
  organizationId: bigint,
  stopped: AbortSignal,
): Repairs {
  const { database, folderId, settings } = context;

  const isTheOrganizations = ({ shard }: RunningWorker) => isOfShard(organizationId, shard);

  /** Who has the lock may be no worker that answers, but a command like this one. */
  const isWorkerThere = async (): Promise<boolean> => {
    const workers = await readWorkers(database, folderId).catch(() => null);
    // Where Postgres says nothing, nobody could do anything now.
    return workers?.some(isTheOrganizations) ?? true;
  };

  /** Rejects where those that are there will never do it. */
  const requireNoOthers = async (): Promise<void> => {
    const workers = await readWorkers(database, folderId);
    if (workers.length === 0 || workers.some(isTheOrganizations)) return;
    const organization = encodeId('organization', organizationId);
    throw new OperatorError(`No worker has ${organization}: start the one whose shard is missing.`);
  };

  const ask = async (request: Request): Promise<boolean> => {
    const outcome = await askWorker(settings.dataDirectory, request, isWorkerThere, stopped);
    if (outcome === 'nobody is there') {
      await requireNoOthers();
      return false;
    }
    if (outcome.failure === null) return true;
    const outlook = request.kind === 'rebuild' ? ', but tries again by itself' : '';
    throw new OperatorError(`The worker could not do it${outlook}: ${outcome.failure}`);
  };

  const doOrAsk = async (
    work: (repairs: Repairs) => Promise<void>,
    request: Request,
  ): Promise<void> => {
    for (let isDone = false; !isDone; ) {
      isDone = true;
      await withOnlyWorker(
        context,
        (worker) => work(worker.repairsFor(organizationId)),
        async () => {
          isDone = await ask(request);
        },
      );
    }
  };

  return {
    reread: (ranges) =>
      doOrAsk(({ reread }) => reread(ranges), {
        kind: 'reread',
        organizationId,
        ranges: [...ranges],
      }),
    rebuild: () => doOrAsk(({ rebuild }) => rebuild(), { kind: 'rebuild', organizationId }),
  };
}
