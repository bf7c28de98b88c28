import type { Logger } from 'pino';
import type { Shard } from '../../src/purchase-store/shard.ts';
import { describeFailure } from '../failure.ts';
import type { Stage } from '../metrics/metrics.ts';
import {
  type OrganizationReport,
  type OrganizationState,
  type WorkerFailure,
  writeWorkerState,
} from '../status/worker-state.ts';
import type { Phase } from '../tick/organization-phases.ts';

const writeIntervalMs = 200;

/** The state of an organization that is not built and whose build has not failed. */
export const idleStates: Readonly<Record<Phase, OrganizationState>> = {
  following: 'live',
  behind: 'catching up',
  'far behind': 'catching up',
  'load required': 'waiting to load',
};

const live: OrganizationReport = { state: 'live', progress: null, failure: null };

export type Reports = ReturnType<typeof createReports>;

/** Reports what a worker does, in the file that `status` reads. */
export function createReports(options: {
  readonly dataDirectory: string;
  readonly shard: Shard;
  readonly log: Logger;
  readonly onReport: (organizationId: bigint, report: OrganizationReport) => void;
  readonly onFailure: (stage: Stage) => void;
}) {
  const { dataDirectory, shard, log, onReport } = options;
  const organizations = new Map<bigint, OrganizationReport>();
  const failures = new Map<Stage, WorkerFailure>();
  let timer: NodeJS.Timeout | null = null;
  let isClosed = false;

  const write = () => {
    timer = null;
    const [oldest = null] = failures.values();
    const reports = [...organizations].map(([id, report]) => [String(id), report]);
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

  return {
    /** Changes the report of an organization. Its state is `failed` as long as it has a failure. */
    report(id: bigint, changed: Partial<OrganizationReport>): void {
      const report = { ...(organizations.get(id) ?? live), ...changed };
      if (report.failure !== null) report.state = 'failed';
      organizations.set(id, report);
      onReport(id, report);
      writeSoon();
    },

    /** Null if nothing is reported. */
    of: (id: bigint): OrganizationReport | null => organizations.get(id) ?? null,

    /** The organization is live, and nothing else is to be reported. */
    clear(id: bigint): void {
      if (!organizations.delete(id)) return;
      onReport(id, live);
      writeSoon();
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
