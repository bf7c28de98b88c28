import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Builder, BuildOptions, BuildProgress } from '../builds/builder.ts';
import type { WorkerMetrics } from '../metrics/metrics.ts';
import type { Build, BuildFailures, BuildKind, Organization } from '../organization.ts';
import type { OrganizationReport, OrganizationState } from '../organization-report.ts';
import { joinPrepared } from '../tick/join.ts';
import type { Prepared } from '../tick/store.ts';
import type { Reports } from './status-reports.ts';
import type { TickRunner } from './tick-runner.ts';

/** After failing for this time, a load begins again, because the change log is pruned. */
const maxFailingMs = 3_600_000;

export type BuildRunnerOptions = {
  readonly builder: Builder;
  readonly ticks: TickRunner;
  readonly concurrency: number;
  readonly reports: Reports;
  readonly metrics: WorkerMetrics;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/** Runs builds of organizations that are not building, and publishes the results. */
export function createBuildRunner(options: BuildRunnerOptions) {
  const { builder, ticks, reports, metrics, signal, log } = options;
  const { context, exclusively, organizations } = ticks;
  const queue = new PQueue({ concurrency: options.concurrency });

  const retain = ({ work }: Organization, snapshot: string | null): void => {
    const before = work.retention;
    if (snapshot === null && before !== null) return;
    const failingSince = before?.snapshot === snapshot ? before.failingSince : null;
    work.retention = { snapshot, failingSince };
  };

  const noteFailing = ({ work }: Organization): void => {
    const { snapshot = null, failingSince = null } = work.retention ?? {};
    work.retention =
      snapshot === null ? null : { snapshot, failingSince: failingSince ?? performance.now() };
  };

  /** Runs a build that has a slot. */
  const runNow = async (
    group: readonly Organization[],
    build: Build,
    reason: string,
    work: (options: BuildOptions) => Promise<BuildFailures>,
  ): Promise<BuildFailures> => {
    const { kind } = build;
    const [first] = group as [Organization];
    const described =
      group.length === 1
        ? { organization: encodeId('organization', first.id) }
        : { organizations: group.length };
    const state = stateOf(kind, first, context().store.storedOf);
    const change = (changed: Partial<Build>): void => {
      Object.assign(build, changed);
      group.forEach(reports.changed);
    };
    signal.throwIfAborted();
    if (kind !== 'compact') for (const organization of group) retain(organization, null);
    change({ state });
    log.info({ ...described, reason }, state);
    const startedAt = performance.now();
    try {
      const failures = await work({
        signal,
        onRetain(snapshot) {
          for (const organization of group) retain(organization, snapshot);
        },
        onProgress: createProgressReport((progress) => change({ progress })),
      });
      const milliseconds = performance.now() - startedAt;
      metrics.built(kind, reason, milliseconds);
      for (const organization of group) {
        if (failures.has(organization.id)) noteFailing(organization);
        else if (kind !== 'compact') organization.work.retention = null;
      }
      log.info({ ...described, milliseconds: Math.round(milliseconds) }, 'built');
      return failures;
    } catch (error) {
      if (kind !== 'compact') group.forEach(noteFailing);
      throw error;
    }
  };

  const run = (
    group: readonly Organization[],
    kind: BuildKind,
    reason: string,
    work: (options: BuildOptions) => Promise<BuildFailures>,
  ): Promise<BuildFailures> => {
    const build: Build = { kind, done: Promise.resolve(noFailures), state: null, progress: null };
    for (const organization of group) organization.work.build = build;
    group.forEach(reports.changed);
    build.done = queue
      .add(() => runNow(group, build, reason, work))
      .finally(() => {
        for (const organization of group) organization.work.build = null;
      });
    build.done.catch(() => {});
    return build.done;
  };

  /** Publishes what a build has prepared; discards what fails. Rejects if nothing is published. */
  const publish = async (preparing: Promise<readonly Prepared[]>): Promise<BuildFailures> => {
    const prepared = await preparing;
    const [first] = prepared;
    if (first === undefined) return noFailures;
    try {
      const failures = await exclusively(() => joinPrepared(context(), prepared, first.since));
      if (failures.size === prepared.length) throw failures.values().next().value;
      return failures;
    } finally {
      for (const each of prepared) await each.discard().catch(() => {});
    }
  };

  return {
    load: (group: readonly Organization[], reason: string): Promise<BuildFailures> =>
      run(group, 'load', reason, (build) => publish(builder.load(group, build))),

    catchUp: (organization: Organization, reason: string): Promise<BuildFailures> =>
      run([organization], 'catch up', reason, (build) => {
        const { tick } = context().publication;
        return publish(builder.catchUp(organization, tick, build).then((each) => [each]));
      }),

    compact: (organization: Organization, reason: string): Promise<BuildFailures> =>
      run([organization], 'compact', reason, async (build) => {
        const publishedTick = () => context().publication.tick;
        const compacted = await builder.compact(organization, publishedTick, build);
        try {
          await exclusively(async () => {
            const { publication } = context();
            if (organizations.get(organization.id) !== organization) {
              throw new Error('another organization has this id now');
            }
            await compacted.publish(
              publication.tick,
              organization.watermark ?? publication.watermarkOf(organization.id),
            );
          });
          return noFailures;
        } finally {
          await compacted.discard().catch(() => {});
        }
      }),

    /** Resolves when the builds that are queued now have ended. */
    async settled(): Promise<void> {
      const builds = [...organizations.values()].map(({ work }) => work.build?.done);
      await Promise.allSettled(builds);
    },

    /** Snapshots whose later changes builds need; null while a build does not know its snapshot yet. */
    retained(): readonly string[] | null {
      const oldest = performance.now() - maxFailingMs;
      const snapshots = new Set<string>();
      for (const { work } of organizations.values()) {
        if (work.retention === null) continue;
        const { snapshot, failingSince } = work.retention;
        const isOver = failingSince !== null && failingSince < oldest;
        if (isOver && work.build === null) work.retention = null;
        else if (snapshot === null) return null;
        else snapshots.add(snapshot);
      }
      return [...snapshots];
    },
  };
}

const noFailures: BuildFailures = new Map();

function stateOf(
  kind: BuildKind,
  { id }: Organization,
  storedOf: (id: bigint) => unknown,
): OrganizationState {
  if (kind === 'compact') return 'compacting';
  if (kind === 'catch up') return 'catching up';
  return storedOf(id) === null ? 'loading' : 'rebuilding';
}

/** Reports the progress of a load with its rate. */
function createProgressReport(
  report: (progress: OrganizationReport['progress']) => void,
): (progress: BuildProgress) => void {
  const startedAt = performance.now();
  let first: number | null = null;
  return ({ loaded, expected }) => {
    first ??= loaded;
    const seconds = Math.max(0.001, (performance.now() - startedAt) / 1000);
    report({ loaded, expected, rowsPerSecond: Math.round((loaded - first) / seconds) });
  };
}
