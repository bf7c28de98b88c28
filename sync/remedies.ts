import { OperatorError } from '../src/operator-error.ts';
import { askWorker, type Request } from './requests.ts';
import type { Remedies } from './verification/repair.ts';
import { type Workplace, withOnlyWorker } from './worker-process.ts';

/**
 * What a command can do for an organization: as the folder's worker where there is
 * none, and else by asking the one there is. Each rejects with OperatorError where
 * it fails.
 */
export function remediesOf(
  workplace: Workplace,
  organizationId: bigint,
  stopped: AbortSignal,
): Remedies {
  const ask = async (request: Request) => {
    const failure = await askWorker(workplace.settings.dataDirectory, request, stopped);
    if (failure === null) return;
    const outlook = request.kind === 'rebuild' ? ', but tries again by itself' : '';
    throw new OperatorError(`The worker could not do it${outlook}: ${failure}`);
  };
  return {
    reread: (ranges) =>
      withOnlyWorker(
        workplace,
        (worker) => worker.remediesFor(organizationId).reread(ranges),
        () => ask({ kind: 'reread', organizationId, ranges: [...ranges] }),
      ),
    rebuild: () =>
      withOnlyWorker(
        workplace,
        (worker) => worker.remediesFor(organizationId).rebuild(),
        () => ask({ kind: 'rebuild', organizationId }),
      ),
  };
}
