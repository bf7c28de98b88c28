import type { MappingStatus } from '../../src/postgres/mapping/mapping-status.ts';
import type { OrganizationStatus, Status } from './status.ts';

const faults: readonly OrganizationStatus['state'][] = [
  'failed',
  'damaged',
  'not captured',
  'stopped',
];

/** Whether nothing needs an operator. `maxLagSeconds` 0: purchases may have any age. */
export function isHealthy(status: Status, maxLagSeconds: number): boolean {
  const { workers, organizations, captureProblem, diskProblem, mapping, failure } = status;
  return (
    failure === null &&
    captureProblem === null &&
    diskProblem === null &&
    (mapping === null || isMappingHealthy(mapping, maxLagSeconds)) &&
    workers.length > 0 &&
    workers.every((worker) => worker.failure === null) &&
    organizations.every((organization) => isOrganizationHealthy(organization, maxLagSeconds))
  );
}

export function isOrganizationHealthy(
  { state, failure, verified, lagSeconds }: OrganizationStatus,
  maxLagSeconds: number,
): boolean {
  if (faults.includes(state) || failure !== null) return false;
  if (verified?.state === 'differs' || verified?.state === 'unreadable') return false;
  return isRecent(lagSeconds, maxLagSeconds);
}

/** A first copy that is not complete is healthy, as a load is. */
export function isMappingHealthy(
  { refusedRows, heldDeletions, problem, lagSeconds }: MappingStatus,
  maxLagSeconds: number,
): boolean {
  if (refusedRows > 0 || heldDeletions.length > 0 || problem !== null) return false;
  return isRecent(lagSeconds, maxLagSeconds);
}

const isRecent = (lagSeconds: number | null, maxLagSeconds: number): boolean =>
  maxLagSeconds === 0 || lagSeconds === null || lagSeconds <= maxLagSeconds;
