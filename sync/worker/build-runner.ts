import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Builder, BuildOptions, BuildProgress } from '../builds/builder.ts';
import type { WorkerMetrics } from '../metrics/metrics.ts';
import type { OrganizationReport, OrganizationState } from '../status/worker-state.ts';
import { joinPrepared } from '../tick/join.ts';
import type { Organization } from '../tick/organization-phases.ts';
import type { Prepared } from '../tick/store.ts';
import type { Replication } from './replication.ts';
import { idleStates, type Reports } from './status-reports.ts';

type BuildKind = 'load' | 'catch up' | 'compact';

/** A load that has failed for longer begins again. */
const maxFailingMs = 3_600_000;

type Retention = {
  /** Null while the build does not know it yet. */
  readonly snapshot: string | null;
  /** When the build first failed, in monotonic milliseconds; null if it has not failed. */
  readonly failingSince: number | null;
};

/** Of a build of several organizations, by organization: the others are published. */
type BuildFailures = ReadonlyMap<bigint, unknown>;

type RunningBuild = { readonly kind: BuildKind; readonly done: Promise<BuildFailures> };

export type BuildRunnerOptions = {
  readonly builder: Builder;
  readonly replication: Replication;
  readonly concurrency: number;
  readonly reports: Reports;
  readonly metrics: WorkerMetrics;
  readonly signal: AbortSignal;
  readonly log: Logger;
};

/** Runs builds of organizations that are not building, and publishes the results. */
export function createBuildRunner(options: BuildRunnerOptions) {
  const { builder, replication, reports, metrics, signal, log } = options;
  const { context, exclusively } = replication;
  const queue = new PQueue({ concurrency: options.concurrency });
  const running = new Map<bigint, RunningBuild>();
  /** Of each load and catch-up. One that failed continues where it was, until it succeeds. */
  const retentions = new Map<bigint, Retention>();

  const retain = (id: bigint, snapshot: string | null): void => {
    const before = retentions.get(id) ?? null;
    if (snapshot === null && before !== null) return;
    const failingSince = before?.snapshot === snapshot ? before.failingSince : null;
    retentions.set(id, { snapshot, failingSince });
  };

  const failed = (id: bigint): void => {
    const { snapshot = null, failingSince = null } = retentions.get(id) ?? {};
    if (snapshot === null) retentions.delete(id);
    else retentions.set(id, { snapshot, failingSince: failingSince ?? performance.now() });
  };

  const run = (
    group: readonly Organization[],
    kind: BuildKind,
    reason: string,
    work: (build: BuildOptions) => Promise<BuildFailures>,
  ): Promise<BuildFailures> => {
    const state = stateOf(kind, group[0] as Organization, context().store.storedOf);
    for (const { id, phase } of group) {
      reports.report(id, { state: idleStates[phase], progress: null });
    }
    const done = queue.add(async () => {
      signal.throwIfAborted();
      for (const { id } of group) {
        if (kind !== 'compact') retain(id, null);
        reports.report(id, { state });
      }
      const described =
        group.length === 1
          ? { organization: encodeId('organization', (group[0] as Organization).id) }
          : { organizations: group.length };
      log.info({ ...described, reason }, state);
      const startedAt = performance.now();
      let failures: BuildFailures;
      try {
        failures = await work({
          signal,
          onRetain(snapshot) {
            for (const { id } of group) retain(id, snapshot);
          },
          onProgress: createProgressReport((progress) => {
            for (const { id } of group) reports.report(id, { progress });
          }),
        });
      } catch (error) {
        if (kind !== 'compact') for (const { id } of group) failed(id);
        throw error;
      }
      const milliseconds = performance.now() - startedAt;
      metrics.built(kind, reason, milliseconds);
      for (const { id } of group) {
        if (failures.has(id)) {
          failed(id);
          continue;
        }
        if (kind !== 'compact') retentions.delete(id);
        reports.clear(id);
      }
      log.info({ ...described, milliseconds: Math.round(milliseconds) }, 'built');
      return failures;
    });
    const settled = done.finally(() => {
      for (const { id } of group) running.delete(id);
    });
    settled.catch(() => {});
    for (const { id } of group) running.set(id, { kind, done: settled });
    return settled;
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
            if (replication.organizations.get(organization.id) !== organization) {
              throw new Error('another organization has this id now');
            }
            await compacted.publish(publication.tick, organization.shown ?? publication.shown);
          });
          return noFailures;
        } finally {
          await compacted.discard().catch(() => {});
        }
      }),

    runningOf: (id: bigint): RunningBuild | null => running.get(id) ?? null,

    /** Resolves when the builds that are queued now have ended. */
    async settled(): Promise<void> {
      await Promise.allSettled([...running.values()].map(({ done }) => done));
    },

    /** Snapshots whose later changes builds need; null while a build does not know its snapshot yet. */
    retained(isPresent: (organizationId: bigint) => boolean): readonly string[] | null {
      const oldest = performance.now() - maxFailingMs;
      const snapshots = new Set<string>();
      for (const [id, { snapshot, failingSince }] of retentions) {
        const isOver = !isPresent(id) || (failingSince ?? Number.POSITIVE_INFINITY) < oldest;
        if (isOver && !running.has(id)) retentions.delete(id);
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
