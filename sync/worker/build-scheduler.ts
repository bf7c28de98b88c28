import PQueue from 'p-queue';
import { isOutOfMemory } from '../../src/duckdb/memory.ts';
import { MissingChangesError } from '../capture/missing-changes.ts';
import { isDataError, isFileDamage } from '../describe-failure.ts';
import { dueBuild, mayCompact, type Organization, requireLoad } from '../organization.ts';
import { maxUncompactedBytes, TooManyBytesError } from '../tick/byte-limits.ts';
import { removeFoundDifference } from '../verification/verification-record.ts';
import { type BuildRunnerOptions, createBuildRunner } from './build-runner.ts';

export type BuildScheduler = ReturnType<typeof createBuildScheduler>;

type BuildSchedulerOptions = BuildRunnerOptions & {
  readonly dataDirectory: string;
  /** Changes since a load or compaction beyond which the next one is due. Smaller in tests. */
  readonly maxLogRecords?: number | undefined;
  /** A build has found that published files are damaged. */
  readonly onDamage: (organizationId: bigint) => void;
};

const defaultMaxLogRecords = 20_000;
/** Fewer changes are not compacted: each compaction writes all purchases again. */
const minChangedShare = 0.02;

/**
 * Starts the builds that are due, and repeats those that failed. `dueBuild` (sync/organization.ts) decides which
 * load or catch-up comes next, `compactIfDue` when a compaction does.
 */
export function createBuildScheduler(options: BuildSchedulerOptions) {
  const { builder, reports, metrics, signal, onDamage } = options;
  const { maxLogRecords = defaultMaxLogRecords } = options;
  const { context, organizations } = options.ticks;
  const runner = createBuildRunner(options);
  const saves = new PQueue({ concurrency: 1 });

  const load = async (group: readonly Organization[], reason: string): Promise<void> => {
    try {
      const failed = await runner.load(group, reason);
      for (const organization of group) {
        if (failed.has(organization.id)) {
          loadFailed([organization], failed.get(organization.id));
          continue;
        }
        organization.work.requestedLoad = null;
        await removeFoundDifference(options.dataDirectory, organization.id);
        reports.succeeded(organization, 'build');
      }
    } catch (error) {
      if (!signal.aborted) loadFailed(group, error);
      throw error;
    }
  };

  const loadFailed = (group: readonly Organization[], error: unknown): void => {
    const isShared = group.length > 1;
    const mustLoadAlone =
      error instanceof TooManyBytesError
        ? ({ id }: Organization) => id === error.organizationId
        : () => isDataError(error);
    if (isShared && group.some(mustLoadAlone)) {
      for (const { work } of group.filter(mustLoadAlone)) work.loadsAlone = true;
      return;
    }
    metrics.failed('load');
    for (const organization of group) reports.failed(organization, 'build', error);
  };

  const catchUp = async (organization: Organization): Promise<void> => {
    try {
      await runner.catchUp(organization, organization.reason ?? 'many changes');
      reports.succeeded(organization, 'build');
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof MissingChangesError) requireLoad(organization, error.reason);
      else if (error instanceof TooManyBytesError || isOutOfMemory(error)) {
        requireLoad(organization, 'too many changes to merge');
      } else {
        if (isFileDamage(error)) onDamage(organization.id);
        metrics.failed('changes');
        reports.failed(organization, 'build', error);
      }
    }
  };

  const compact = async (organization: Organization, reason: string): Promise<void> => {
    try {
      await runner.compact(organization, reason);
      reports.succeeded(organization, 'compaction');
    } catch (error) {
      if (signal.aborted) return;
      // A load takes less memory.
      if (isOutOfMemory(error)) organization.work.requestedLoad = 'a compaction ran out of memory';
      compactionFailed(organization, error);
    }
  };

  const compactionFailed = (organization: Organization, error: unknown): void => {
    if (isFileDamage(error)) onDamage(organization.id);
    metrics.failed('compact');
    reports.failed(organization, 'compaction', error);
  };

  /** Saves a delta. Builds and joins may run meanwhile, because a save only reads published files. */
  const saveDelta = async (organization: Organization): Promise<void> => {
    organization.work.isSaving = true;
    try {
      await saves.add(async () => {
        signal.throwIfAborted();
        await builder.saveDelta?.(organization.id, context().publication.tick);
      });
      reports.succeeded(organization, 'compaction');
    } catch (error) {
      if (!signal.aborted) compactionFailed(organization, error);
    } finally {
      organization.work.isSaving = false;
    }
  };

  const loadInBackground = (group: readonly Organization[]): void => {
    const [{ work, reason }] = group as [Organization];
    // Failures are reported.
    void load(group, work.requestedLoad ?? reason ?? 'a load is required').catch(() => {});
  };

  return {
    /** Queues the builds of organizations that need one, and are not building or pausing. */
    async startDue(isWanted: (organization: Organization) => boolean = () => true): Promise<void> {
      const shared: Organization[] = [];
      for (const organization of organizations.values()) {
        const build = dueBuild(organization);
        if (build === null || !isWanted(organization)) continue;
        const { loadsAlone, requestedLoad } = organization.work;
        if (build === 'catch up') void catchUp(organization);
        else if (loadsAlone || requestedLoad !== null) loadInBackground([organization]);
        else shared.push(organization);
      }
      if (shared.length === 0) return;
      for (const group of await builder.groupLoads(shared)) loadInBackground(group);
    },

    /** Queues a compaction or a save of the delta if one is due. */
    compactIfDue(id: bigint): void {
      const organization = organizations.get(id);
      const size = context().store.sizeOf(id);
      if (organization === undefined || size === null || !mayCompact(organization)) return;
      const { changes, changeBytes, purchases } = size;
      const isLong =
        changes > Math.max(maxLogRecords, purchases * minChangedShare) ||
        changeBytes > maxUncompactedBytes;
      if (isLong) {
        void compact(organization, `${changes} changes`);
      } else if (builder.isReplayLong?.(size)) void saveDelta(organization);
    },

    /**
     * Loads the organization again while what is published serves. Resolves when it is published. A load
     * that has begun already is enough. Rejects after a failure; `startDue` repeats the load until it
     * succeeds.
     */
    async rebuild(id: bigint, reason: string): Promise<void> {
      for (;;) {
        const organization = organizations.get(id);
        if (organization === undefined) {
          throw new Error('this worker does not have the organization');
        }
        const { work } = organization;
        if (work.build === null) {
          work.requestedLoad = reason;
          return load([organization], reason);
        }
        if (work.build.kind === 'load') {
          const failed = await work.build.done;
          if (failed.has(id)) throw failed.get(id);
          return;
        }
        await work.build.done.catch(() => {});
      }
    },

    async settled(): Promise<void> {
      await runner.settled();
      await saves.onIdle();
    },
    retained: runner.retained,
  };
}
