import PQueue from 'p-queue';
import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/pool.ts';
import type { Builder, BuildOptions, BuildProgress } from '../builds/builder.ts';
import { findInvalidPurchase } from '../capture/invalid-purchase.ts';
import { InsufficientLogError } from '../capture/log-sufficiency.ts';
import { isDataError, isFileDamage } from '../failure.ts';
import type { WorkerObserver } from '../metrics/observer.ts';
import type { OrganizationReport, OrganizationState } from '../status/worker-state.ts';
import { joinPrepared } from '../tick/join.ts';
import { exceptionsOf, type Organization, type Organizations } from '../tick/organizations.ts';
import type { Prepared } from '../tick/store.ts';
import type { TickContext } from '../tick/tick.ts';
import type { Reports } from './reports.ts';
import { createRetentions } from './retentions.ts';
import { createRetries, type Retries } from './retries.ts';

export type BuildKind = 'load' | 'catch up' | 'compact';

export type BuildScheduler = {
  /** Queues the builds of organizations that need one, and are not building or pausing. */
  startDue(isWanted?: (organization: Organization) => boolean): Promise<void>;
  /** Queues a compaction if one is due. */
  compactIfDue(organizationId: bigint): void;
  /**
   * Loads the organization again while what is published serves. Resolves when it is published. A load
   * that has begun already is enough. Rejects after a failure; `startDue` repeats the load until it
   * succeeds.
   */
  rebuild(organizationId: bigint, reason: string): Promise<void>;
  isBuilding(organizationId: bigint): boolean;
  /** What has failed is due again. */
  endPauses(): void;
  /** Resolves when the builds that are queued now have ended. Returns the failures. */
  settled(): Promise<readonly unknown[]>;
  /** Snapshots whose later changes builds need; null while a build does not know its snapshot yet. */
  retained(): readonly string[] | null;
};

/** Runs `work` while no tick and no other publication runs. */
export type Exclusively = <Result>(work: () => Promise<Result>) => Promise<Result>;

export type BuildSchedulerOptions = {
  readonly database: Database;
  readonly builder: Builder;
  readonly context: () => TickContext;
  readonly organizations: Organizations;
  readonly exclusively: Exclusively;
  readonly concurrency: number;
  readonly reports: Reports;
  readonly observer: WorkerObserver;
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
  /** A build has found that published files are damaged. */
  readonly onDamage: (organizationId: bigint) => void;
};

/** Decides when organizations are built, and publishes the results. */
export function createBuildScheduler(options: BuildSchedulerOptions): BuildScheduler {
  const { builder, context, organizations, exclusively, reports, observer, signal } = options;
  const queue = new PQueue({ concurrency: options.concurrency });
  const building = new Map<bigint, { readonly kind: BuildKind; readonly done: Promise<void> }>();
  const retries = new Map<bigint, Retries>();
  const compactionRetries = new Map<bigint, Retries>();
  const retentions = createRetentions();
  /** Organizations with which a shared load failed. */
  const alone = new Set<bigint>();
  /** The reasons of requested loads that have not succeeded yet. */
  const requested = new Map<bigint, string>();

  const logOf = (id: bigint) => options.log.child({ organization: encodeId('organization', id) });
  const retriesOf = (all: Map<bigint, Retries>, id: bigint): Retries => {
    const known = all.get(id) ?? createRetries(logOf(id));
    all.set(id, known);
    return known;
  };

  /** Runs a build of organizations that are not building. */
  const run = (
    group: readonly Organization[],
    kind: BuildKind,
    reason: string,
    work: (build: BuildOptions) => Promise<void>,
  ): Promise<void> => {
    const state = stateOf(kind, group[0] as Organization, context().store.storedOf);
    for (const { id } of group) {
      reports.report(id, { state: queuedStates[kind], reason, progress: null });
    }
    const done = queue.add(async () => {
      signal.throwIfAborted();
      const retain = kind === 'compact' ? () => {} : retentions.begin(group);
      for (const { id } of group) reports.report(id, { state, reason });
      const [first] = group as [Organization];
      if (group.length === 1) logOf(first.id).info({ reason }, state);
      else options.log.info({ organizations: group.length, reason }, state);
      const startedAt = performance.now();
      try {
        await work({
          signal,
          onRetain: retain,
          onProgress: createProgressReport((progress) => {
            for (const { id } of group) reports.report(id, { progress });
          }),
        });
      } catch (error) {
        retentions.fail(group);
        throw error;
      }
      retentions.succeed(group);
      const milliseconds = performance.now() - startedAt;
      observer.built(kind, reason, milliseconds);
      for (const { id } of group) reports.clear(id);
      if (group.length === 1)
        logOf(first.id).info({ milliseconds: Math.round(milliseconds) }, 'built');
    });
    const settled = done.finally(() => {
      for (const { id } of group) building.delete(id);
    });
    settled.catch(() => {});
    for (const { id } of group) building.set(id, { kind, done: settled });
    return settled;
  };

  /** Publishes what a build has prepared; discards it after a failure. */
  const publish = async (preparing: Promise<readonly Prepared[]>): Promise<void> => {
    const prepared = await preparing;
    const [first] = prepared;
    if (first === undefined) return;
    try {
      await exclusively(() => joinPrepared(context(), prepared, first.since));
    } finally {
      for (const each of prepared) await each.discard().catch(() => {});
    }
  };

  const load = async (group: readonly Organization[], reason: string): Promise<void> => {
    try {
      await run(group, 'load', reason, (build) => publish(builder.load(group, build)));
      for (const { id } of group) {
        requested.delete(id);
        retriesOf(retries, id).succeeded();
      }
    } catch (error) {
      await handleFailure(group, 'load', error);
      throw error;
    }
  };

  const catchUp = async (organization: Organization): Promise<void> => {
    const reason = organization.reason ?? 'many changes';
    try {
      await run([organization], 'catch up', reason, (build) => {
        const { tick } = context().publication;
        return publish(builder.catchUp(organization, tick, build).then((each) => [each]));
      });
      retriesOf(retries, organization.id).succeeded();
    } catch (error) {
      if (error instanceof InsufficientLogError) {
        organization.phase = 'load required';
        organization.reason = error.reason;
        return;
      }
      await handleFailure([organization], 'catch up', error);
      throw error;
    }
  };

  const compact = async (organization: Organization, reason: string): Promise<void> => {
    const { id } = organization;
    try {
      await run([organization], 'compact', reason, async (build) => {
        const compacted = await builder.compact(organization, context().publication.tick, build);
        try {
          await exclusively(async () => {
            const { publication } = context();
            await compacted.publish(publication.tick, organization.shown ?? publication.shown);
          });
        } finally {
          await compacted.discard().catch(() => {});
        }
      });
      retriesOf(compactionRetries, id).succeeded();
    } catch (error) {
      if (signal.aborted) return;
      // Without a compaction, everything is published nonetheless. The pause bounds the wasted work.
      options.onError(error);
      if (isFileDamage(error)) options.onDamage(id);
      observer.failed('compact');
      retriesOf(compactionRetries, id).failed(error);
      reports.clear(id);
    }
  };

  const handleFailure = async (
    group: readonly Organization[],
    kind: BuildKind,
    error: unknown,
  ): Promise<void> => {
    if (signal.aborted) return;
    options.onError(error);
    if (group.length > 1 && isDataError(error)) {
      for (const { id } of group) alone.add(id);
      return;
    }
    if (kind === 'catch up' && isFileDamage(error))
      for (const { id } of group) options.onDamage(id);
    observer.failed(kind === 'load' ? 'load' : 'changes');
    for (const { id } of group) {
      const found = isDataError(error)
        ? await findInvalidPurchase(options.database, id).catch(() => null)
        : null;
      const failure = retriesOf(retries, id).failed(found ?? error);
      reports.report(id, { progress: null, failure });
    }
  };

  /** Failures are reported. */
  const inBackground = (build: Promise<void>): void => void build.catch(() => {});

  const isDue = ({ id }: Organization) => !building.has(id) && retriesOf(retries, id).isDue();

  return {
    async startDue(isWanted = () => true) {
      for (const [id, reason] of requested) {
        const organization = organizations.get(id);
        if (organization === undefined) requested.delete(id);
        else if (isWanted(organization) && isDue(organization)) {
          inBackground(load([organization], reason));
        }
      }
      const waiting = exceptionsOf(organizations).filter(isWanted);
      for (const organization of waiting) {
        if (organization.phase === 'far behind' && isDue(organization)) {
          inBackground(catchUp(organization));
        }
      }
      const loads = waiting.filter((each) => each.phase === 'load required' && isDue(each));
      if (loads.length === 0) return;
      const single = loads.filter(({ id }) => alone.has(id)).map((each) => [each]);
      const shared = await builder.groupLoads(loads.filter(({ id }) => !alone.has(id)));
      for (const group of [...single, ...shared]) {
        const [first] = group;
        if (first !== undefined) inBackground(load(group, first.reason ?? 'a load is required'));
      }
    },

    compactIfDue(id) {
      const organization = organizations.get(id);
      const reason = context().store.whyCompact(id);
      if (organization === undefined || reason === null || building.has(id)) return;
      if (retriesOf(compactionRetries, id).isDue()) inBackground(compact(organization, reason));
    },

    async rebuild(id, reason) {
      for (;;) {
        const current = building.get(id);
        if (current === undefined) break;
        if (current.kind === 'load') return current.done;
        await current.done.catch(() => {});
      }
      const organization = organizations.get(id);
      if (organization === undefined) throw new Error('this worker does not have the organization');
      requested.set(id, reason);
      await load([organization], reason);
    },

    isBuilding: (id) => building.has(id),

    endPauses() {
      for (const each of [...retries.values(), ...compactionRetries.values()]) each.endPause();
    },

    async settled() {
      const results = await Promise.allSettled([...building.values()].map(({ done }) => done));
      return results.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    },

    retained: () => retentions.snapshots((id) => organizations.has(id)),
  };
}

/** The state of an organization whose build waits for a slot. */
const queuedStates: Readonly<Record<BuildKind, OrganizationState>> = {
  load: 'waiting to load',
  'catch up': 'catching up',
  compact: 'live',
};

/** The state of an organization that is built. */
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
