import { formatMappingStatus } from '../../src/commands/mapping-status.ts';
import { formatTable } from '../../src/commands/plain-table.ts';
import { formatDuration } from '../../src/domain/duration.ts';
import { isMappingHealthy, isOrganizationHealthy } from './health.ts';
import type { OrganizationStatus, Status } from './status.ts';
import type { WorkerStatus } from './worker-status.ts';

type StatusView = {
  /** Older purchases need an operator; 0: at any age. */
  readonly maxLagSeconds?: number;
  /** Lists only organizations that need an operator. */
  readonly check?: boolean;
  /** Lists more than 20 organizations. */
  readonly all?: boolean;
};
const maxListed = 20;

/** The status as text: the workers, a summary and a table of organizations, the mapping, and the failures. */
export function formatStatus(
  status: Status,
  { maxLagSeconds = 0, check = false, all = false }: StatusView = {},
): string {
  const isHealthy = (organization: OrganizationStatus) =>
    isOrganizationHealthy(organization, maxLagSeconds);
  const rank = (organization: OrganizationStatus) =>
    isHealthy(organization) ? (organization.state === 'live' ? 2 : 1) : 0;
  const unhealthy = status.organizations.filter((organization) => !isHealthy(organization));
  const listable = check
    ? unhealthy
    : status.organizations.toSorted((one, other) => rank(one) - rank(other));
  const listed = all ? listable : listable.slice(0, maxListed);
  const { workers, horizonHolders, captureProblem, diskProblem } = status;
  const { mapping, failure } = status;
  const isMappingListed = mapping !== null && !(check && isMappingHealthy(mapping, maxLagSeconds));
  return [
    ...(workers.length === 0
      ? ['No worker runs for this data folder: start `npx crm-data-service sync`.']
      : workers.flatMap(describeWorker)),
    ...(diskProblem === null ? [] : [diskProblem]),
    ...(failure === null ? [] : [`The status is incomplete: ${failure.message} ${failure.advice}`]),
    summary(status.organizations, unhealthy.length) +
      (listed.length < listable.length ? ` ${listed.length} are listed; \`--all\` lists all.` : ''),
    ...(listed.length === 0 ? [] : [table(listed)]),
    // The failure of a worker may contain the same sentence.
    ...(captureProblem === null || workers.some(isFailureOf(captureProblem.message))
      ? []
      : [`${captureProblem.message} ${captureProblem.advice}`]),
    ...(isMappingListed ? formatMappingStatus(mapping) : []),
    ...listed.flatMap(describeDamage),
    ...listed.flatMap(describeFailure),
    ...horizonHolders.map(
      ({ kind, name, ageSeconds, query }) =>
        `The ${kind} ${name}${ageSeconds === null ? '' : `, ${formatDuration(ageSeconds)} old,`} holds back vacuum` +
        ` and the pruning of the change log.${query === null ? '' : ` Its statement: ${query}`}`,
    ),
  ].join('\n');
}

/** Such as `3,000 organizations: 2,990 live, 10 failed. 10 need an operator.` */
function summary(organizations: readonly OrganizationStatus[], unhealthy: number): string {
  const counts = new Map<string, number>();
  for (const { state } of organizations) counts.set(state, (counts.get(state) ?? 0) + 1);
  const states = [...counts]
    .toSorted(([, one], [, other]) => other - one)
    .map(([state, count]) => `${formatCount(count)} ${state}`);
  const total = `${formatCount(organizations.length)} organization${organizations.length === 1 ? '' : 's'}`;
  const needs =
    unhealthy === 0
      ? ''
      : ` ${formatCount(unhealthy)} ${unhealthy === 1 ? 'needs' : 'need'} an operator.`;
  return `${[total, ...(states.length === 0 ? [] : [states.join(', ')])].join(': ')}.${needs}`;
}

function describeWorker({ name, shard, since, failure }: WorkerStatus): string[] {
  const part = shard.of === 1 ? '' : ` (shard ${shard.number}/${shard.of})`;
  const line = `Worker: ${name}${part}${since === null ? '' : `, since ${since.toISOString()}`}.`;
  if (failure === null) return [line];
  return [
    line,
    `The worker has failed since ${failure.since}: ${failure.message} ${failure.advice}`,
  ];
}

const isFailureOf =
  (message: string) =>
  ({ failure }: WorkerStatus): boolean =>
    failure?.message === message;

/** Each organization has three lines, because ten columns do not fit a terminal. */
function table(organizations: readonly OrganizationStatus[]): string {
  const columns = [
    { head: 'organization\nname', width: 20 },
    { head: 'purchases\nchanges\nsize', width: 10, align: 'right' },
    { head: 'as of\nverified', width: 27 },
    { head: 'state\npending, lag', width: 17 },
  ] as const;
  const rows = organizations.map((status) => {
    const { organization, name, purchases, changes, fileBytes } = status;
    const { asOf, pendingChanges, lagSeconds } = status;
    const size = fileBytes === null ? '–' : `${(fileBytes / 2 ** 20).toFixed(1)} MiB`;
    const lag = lagSeconds === null ? '–' : formatDuration(lagSeconds);
    return [
      `${organization}\n${name}`,
      `${formatCount(purchases)}\n${changes === null ? '–' : `+${formatCount(changes)}`}\n${size}`,
      `${asOf ?? '–'}\n${describeVerification(status)}`,
      {
        content: `${describeState(status)}\n${formatCount(pendingChanges)}, ${lag}`,
        wordWrap: true,
      },
    ];
  });
  return formatTable(columns, rows);
}

const formatCount = (count: number | null): string => count?.toLocaleString('en') ?? '–';

function describeState({ state, percent, rowsPerSecond, secondsLeft }: OrganizationStatus): string {
  if (percent === null) return state;
  const rate = rowsPerSecond === null ? '' : `, ${rowsPerSecond.toLocaleString('en')}/s`;
  const left = secondsLeft === null ? '' : `, ${formatDuration(secondsLeft)} left`;
  return `${state} ${percent} %${rate}${left}`;
}

function describeVerification({ verified }: OrganizationStatus): string {
  if (verified === null) return '–';
  const ago = `${formatDuration((Date.now() - Date.parse(verified.at)) / 1000)} ago`;
  return verified.state === 'equal' ? ago : `${verified.state}, ${ago}`;
}

function describeDamage({ organization, name, state }: OrganizationStatus): string[] {
  if (state !== 'damaged') return [];
  return [
    `${organization} (${name}): the published files cannot be read, so the API reads from Postgres. ` +
      `Check the disk, and run \`npx crm-data-service sync rebuild --organization ${organization}\`.`,
  ];
}

function describeFailure({ organization, name, failure }: OrganizationStatus): string[] {
  if (failure === null) return [];
  const { message, advice, attempts, at, retryAt } = failure;
  const times = attempts === 1 ? 'once' : `${attempts} times`;
  return [
    `${organization} (${name}) failed ${times}, last at ${at}: ${message} ${advice} ` +
      `Next attempt at ${retryAt}.`,
  ];
}
