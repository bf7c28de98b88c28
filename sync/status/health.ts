import type { OrganizationStatus, Status } from './status.ts';

const faults: readonly OrganizationStatus['state'][] = [
  'failed',
  'damaged',
  'not captured',
  'stopped',
];

/** Whether nothing needs an operator. `maxLagSeconds` 0: purchases may have any age. */
export function isHealthy(status: Status, maxLagSeconds: number): boolean {
  const { workers, organizations, captureProblem, diskProblem, mappingFailures, failure } = status;
  return (
    failure === null &&
    captureProblem === null &&
    diskProblem === null &&
    mappingFailures === null &&
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
  return maxLagSeconds === 0 || lagSeconds === null || lagSeconds <= maxLagSeconds;
}
