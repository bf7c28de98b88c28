import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { type Attempted, noteFailure, noteSuccess } from '../attempts.ts';
import { describeFailure } from '../describe-failure.ts';
import type { Stage } from '../metrics/metrics.ts';
import { type Organization, type Organizations, reportOf } from '../organization.ts';
import type { OrganizationReport } from '../organization-report.ts';
import { type WorkerFailure, writeWorkerState } from '../status/worker-status.ts';

const writeIntervalMs = 200;

export type Reports = ReturnType<typeof createReports>;

/** Logs what a worker does, and writes it to the file that `status` reads. */
export function createReports(options: {
  readonly dataDirectory: string;
  readonly shard: Shard;
  readonly organizations: Organizations;
  readonly log: Logger;
  readonly onReport: (organizationId: bigint, report: OrganizationReport) => void;
  readonly onFailure: (stage: Stage) => void;
  /** A join or a build has failed. */
  readonly onError: (error: unknown) => void;
}) {
  const { dataDirectory, shard, organizations, log } = options;
  const failures = new Map<Stage, WorkerFailure>();
  let timer: NodeJS.Timeout | null = null;
  let isClosed = false;

  const write = () => {
    timer = null;
    const [oldest = null] = failures.values();
    const reports: [string, OrganizationReport][] = [];
    for (const organization of organizations.values()) {
      const { work } = organization;
      const { failure, ...report } = reportOf(organization);
      // Others are live, or wait for their first load.
      if (work.build !== null || failure !== null) {
        reports.push([String(organization.id), { ...report, failure }]);
      }
    }
    try {
      writeWorkerState(dataDirectory, shard, {
        failure: oldest,
        organizations: Object.fromEntries(reports),
      });
    } catch (error) {
      // `status` reports a worker that publishes no ticks.
      log.debug({ err: error }, 'cannot write the state of the worker');
      writeSoon();
    }
  };
  const writeSoon = () => {
    if (isClosed) return;
    timer ??= setTimeout(write, writeIntervalMs).unref();
  };
  // The state of an earlier worker no longer holds.
  write();

  const changed = (organization: Organization): void => {
    options.onReport(organization.id, reportOf(organization));
    writeSoon();
  };
  const logOf = ({ id }: Organization) => log.child({ organization: encodeId('organization', id) });

  return {
    /** To be called after a change of an organization's builds or failures. */
    changed,

    /** An organization was deleted. */
    removed(organization: Organization): void {
      logOf(organization).info('deleted, with its purchases');
      writeSoon();
    },

    failed(organization: Organization, attempted: Attempted, error: unknown): void {
      options.onError(error);
      const { failure, pauseMs } = noteFailure(organization.work.failed, attempted, error);
      const { message, advice, attempts } = failure;
      logOf(organization).error({ advice, attempts, retryInMs: Math.round(pauseMs) }, message);
      changed(organization);
    },

    succeeded(organization: Organization, attempted: Attempted): void {
      const hadFailed = noteSuccess(organization.work.failed, attempted);
      if (hadFailed) logOf(organization).info('works again');
      // A join without a failure before it was not reported.
      if (hadFailed || attempted !== 'join') changed(organization);
    },

    /** Records the failure of a stage of the whole worker, or its success with null. */
    note(stage: Stage, error: unknown): void {
      const before = failures.get(stage);
      if (error === null) {
        if (before === undefined) return;
        log.info({ stage }, 'works again');
        failures.delete(stage);
        writeSoon();
        return;
      }
      options.onFailure(stage);
      const { message, advice } = describeFailure(error);
      if (before?.message === message && before.advice === advice) return;
      if (before?.message !== message) log.error({ stage, advice }, message);
      const since = before?.since ?? new Date().toISOString();
      failures.set(stage, { message, advice, since });
      writeSoon();
    },

    close(): void {
      isClosed = true;
      if (timer === null) return;
      clearTimeout(timer);
      write();
    },
  };
}
