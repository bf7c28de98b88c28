import PQueue from 'p-queue';
import { isOutOfMemory } from '../../src/duckdb/memory.ts';
import { InsufficientLogError } from '../capture/log-sufficiency.ts';
import { isDataError, isFileDamage } from '../failure.ts';
import { maxUncompactedBytes, TooManyBytesError } from '../tick/byte-limits.ts';
import { exceptionsOf, type Organization, requireLoad } from '../tick/organization-phases.ts';
import { type BuildRunnerOptions, createBuildRunner } from './build-runner.ts';
import type { Retries } from './retries.ts';

export type BuildScheduler = ReturnType<typeof createBuildScheduler>;

type BuildSchedulerOptions = BuildRunnerOptions & {
  readonly retries: Retries;
  /** Changes since a load or compaction beyond which the next one is due. Smaller in tests. */
  readonly maxLogRecords?: number | undefined;
  /** A build has found that published files are damaged. */
  readonly onDamage: (organizationId: bigint) => void;
};

const defaultMaxLogRecords = 20_000;
/** Fewer changes are not compacted: each compaction writes all purchases again. */
const minChangedShare = 0.02;

/** Decides when organizations are built. */
export function createBuildScheduler(options: BuildSchedulerOptions) {
  const { builder, retries, metrics, signal, onDamage } = options;
  const { maxLogRecords = defaultMaxLogRecords } = options;
  const { context, organizations } = options.replication;
  const runner = createBuildRunner(options);
  const saves = new PQueue({ concurrency: 1 });
  /** Organizations whose deltas are being saved. */
  const saving = new Set<bigint>();
  /** Organizations that may make a shared load fail. */
  const alone = new Set<bigint>();
  /** The reasons of requested loads that have not succeeded yet. */
  const requested = new Map<bigint, string>();

  const load = async (group: readonly Organization[], reason: string): Promise<void> => {
    try {
      const failed = await runner.load(group, reason);
      for (const organization of group) {
        const { id } = organization;
        if (failed.has(id)) {
          loadFailed([organization], failed.get(id));
          continue;
        }
        requested.delete(id);
        retries.succeeded('build', id);
      }
    } catch (error) {
      if (!signal.aborted) loadFailed(group, error);
      throw error;
    }
  };

  const loadFailed = (group: readonly Organization[], error: unknown): void => {
    if (group.length > 1 && error instanceof TooManyBytesError) {
      alone.add(error.organizationId);
      return;
    }
    if (group.length > 1 && isDataError(error)) {
      for (const { id } of group) alone.add(id);
      return;
    }
    metrics.failed('load');
    for (const { id } of group) retries.failed('build', id, error);
  };

  const catchUp = async (organization: Organization): Promise<void> => {
    const { id, reason } = organization;
    try {
      await runner.catchUp(organization, reason ?? 'many changes');
      retries.succeeded('build', id);
    } catch (error) {
      if (error instanceof InsufficientLogError) requireLoad(organization, error.reason);
      else if (error instanceof TooManyBytesError || isOutOfMemory(error)) {
        requireLoad(organization, 'too many changes to merge');
      } else if (!signal.aborted) {
        if (isFileDamage(error)) onDamage(id);
        metrics.failed('changes');
        retries.failed('build', id, error);
      }
    }
  };

  const compact = async (organization: Organization, reason: string): Promise<void> => {
    const { id } = organization;
    try {
      await runner.compact(organization, reason);
      retries.succeeded('compaction', id);
    } catch (error) {
      if (signal.aborted) return;
      compactionFailed(id, error);
      // A load takes less memory.
      if (isOutOfMemory(error)) requested.set(id, 'a compaction ran out of memory');
      options.reports.clear(id);
    }
  };

  const compactionFailed = (id: bigint, error: unknown): void => {
    if (isFileDamage(error)) onDamage(id);
    metrics.failed('compact');
    retries.failed('compaction', id, error);
  };

  /** Beside builds and joins: it only reads what is published. */
  const saveDelta = async (id: bigint): Promise<void> => {
    saving.add(id);
    try {
      await saves.add(async () => {
        signal.throwIfAborted();
        await builder.saveDelta?.(id, context().publication.tick);
      });
      retries.succeeded('compaction', id);
    } catch (error) {
      if (!signal.aborted) compactionFailed(id, error);
    } finally {
      saving.delete(id);
    }
  };

  const loadInBackground = (group: readonly Organization[], reason: string): void =>
    // Failures are reported.
    void load(group, reason).catch(() => {});

  const isDue = ({ id }: Organization) =>
    runner.runningOf(id) === null && retries.isDue('build', id);

  return {
    /** Queues the builds of organizations that need one, and are not building or pausing. */
    async startDue(isWanted: (organization: Organization) => boolean = () => true): Promise<void> {
      for (const [id, reason] of requested) {
        const organization = organizations.get(id);
        if (organization === undefined) requested.delete(id);
        else if (isWanted(organization) && isDue(organization)) {
          loadInBackground([organization], reason);
        }
      }
      const due = exceptionsOf(organizations).filter((each) => isWanted(each) && isDue(each));
      for (const organization of due) {
        if (organization.phase === 'far behind') void catchUp(organization);
      }
      const loads = due.filter(({ phase }) => phase === 'load required');
      if (loads.length === 0) return;
      const single = loads.filter(({ id }) => alone.has(id)).map((each) => [each]);
      const shared = await builder.groupLoads(loads.filter(({ id }) => !alone.has(id)));
      for (const group of [...single, ...shared]) {
        const [first] = group;
        if (first !== undefined) loadInBackground(group, first.reason ?? 'a load is required');
      }
    },

    /** Queues a compaction or a save of the delta if one is due. */
    compactIfDue(id: bigint): void {
      const organization = organizations.get(id);
      const size = context().store.sizeOf(id);
      if (organization === undefined || size === null) return;
      // A load replaces what is published, which may be of another organization that had this id.
      if (organization.phase === 'load required') return;
      if (runner.runningOf(id) !== null || saving.has(id)) return;
      if (!retries.isDue('compaction', id)) return;
      const { changes, changeBytes, purchases } = size;
      const isLong =
        changes > Math.max(maxLogRecords, purchases * minChangedShare) ||
        changeBytes > maxUncompactedBytes;
      if (isLong) {
        void compact(organization, `${changes} changes`);
      } else if (builder.isReplayLong?.(size)) void saveDelta(id);
    },

    /**
     * Loads the organization again while what is published serves. Resolves when it is published. A load
     * that has begun already is enough. Rejects after a failure; `startDue` repeats the load until it
     * succeeds.
     */
    async rebuild(id: bigint, reason: string): Promise<void> {
      for (;;) {
        const current = runner.runningOf(id);
        if (current === null) break;
        if (current.kind === 'load') {
          const failed = await current.done;
          if (failed.has(id)) throw failed.get(id);
          return;
        }
        await current.done.catch(() => {});
      }
      const organization = organizations.get(id);
      if (organization === undefined) throw new Error('this worker does not have the organization');
      requested.set(id, reason);
      await load([organization], reason);
    },

    isBuilding: (id: bigint): boolean => runner.runningOf(id) !== null,
    async settled(): Promise<void> {
      await runner.settled();
      await saves.onIdle();
    },
    retained: (): readonly string[] | null => runner.retained((id) => organizations.has(id)),
  };
}
