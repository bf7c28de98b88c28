import { setTimeout as sleep } from 'node:timers/promises';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Generation } from '../capture/watermark.ts';
import type { ObservedState, WorkerObserver } from '../metrics/observer.ts';
import type { OrganizationReport, Reporter } from '../status/report.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';
import { createLoadProgressReport } from './load-progress-report.ts';
import { createOrganizationState } from './organization-state.ts';
import type { BuildKind, Replicator } from './replicator.ts';
import { createRetries } from './retries.ts';

/** Decides when one organization's changes are applied and when its file is built. */
export type Scheduler = {
  readonly replicator: Replicator;
  /** The change log has changes that no finished run has applied. */
  markChanged(): void;
  /** A request of the API waits for fresh data: the next run precedes those of other organizations. */
  requestRefresh(): void;
  /**
   * The generation that shows all changes that the last poll of the change log could see; null
   * while a run may still have to publish some.
   */
  upToDateGeneration(): Generation | null;
  /** Queues the runs and builds that are due. */
  startDueWork(): void;
  /** Brings the organization up to date once, with a load if one is required; rejects as the work does. */
  bringUpToDate(): Promise<void>;
  /** Builds the file. Resolves when the new file is published. */
  build(kind: BuildKind, reason: string): Promise<void>;
  /** Reads ranges of purchases again, or loads all of them if that does not help. */
  reread(ranges: readonly PurchaseRange[]): Promise<void>;
  isBusy(): boolean;
  state(): ObservedState;
  close(): Promise<void>;
};

type Queues = {
  readonly changes: PQueue;
  /** Separate from `changes`: a long load delays no other organization's changes. */
  readonly builds: PQueue;
};

// Publishing writes: at most this often, and for at most a tenth of the time.
const minRunIntervalMs = 250;
const writeShare = 10;
// After a refresh request: at most this often, and for at most a third of the time.
const minRefreshIntervalMs = 1_000;
const refreshWriteShare = 3;

export function createScheduler(options: {
  readonly replicator: Replicator;
  readonly queues: Queues;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly observer: WorkerObserver;
  readonly onFailure: (error: unknown) => void;
}): Scheduler {
  const { replicator, queues, reporter, signal, log, observer, onFailure } = options;
  const state = createOrganizationState();
  const runRetries = createRetries(log);
  const buildRetries = { load: createRetries(log), compact: createRetries(log) };
  let hasChanges = true;
  let isRunning = false;
  let isStarted = false;
  let isRefreshRequested = false;
  // Monotonic milliseconds.
  let nextRunAt = 0;
  let nextRefreshAt = 0;
  let building: { readonly kind: BuildKind; readonly done: Promise<void> } | null = null;
  let lastReport: Omit<OrganizationReport, 'at'> = {
    activity: 'following',
    reason: null,
    progress: null,
    failure: null,
  };

  const report = (changed: Partial<typeof lastReport>) => {
    lastReport = { ...lastReport, ...changed };
    reporter.report(lastReport);
  };

  const isLiveUsable = () => state.requiredLoad()?.isLiveUsable ?? true;

  const run = async () => {
    // Changes that are marked from here on may be too late for this run.
    hasChanges = false;
    const isRefresh = isRefreshRequested;
    isRefreshRequested = false;
    const startedAt = performance.now();
    const outcome = await replicator.run(signal);
    if (outcome.kind === 'must be built') {
      state.logInsufficient(outcome.reason);
      return;
    }
    const { writeMs } = outcome;
    nextRunAt = startedAt + Math.max(minRunIntervalMs, writeMs * writeShare);
    if (isRefresh) {
      nextRefreshAt = startedAt + Math.max(minRefreshIntervalMs, writeMs * refreshWriteShare);
    }
    const { compactReason } = outcome;
    // A required load replaces the base, and may continue one that a compaction would remove.
    const isCompactable = state.requiredLoad() === null && buildRetries.compact.isDue();
    if (compactReason !== null && isCompactable) buildInBackground('compact', compactReason);
  };

  const attemptRun = async () => {
    try {
      if (!isStarted && (await replicator.hasUnfinishedBuild())) {
        buildInBackground('load', 'a build was interrupted');
      }
      isStarted = true;
      await run();
      runRetries.succeeded();
      if (building === null && state.name() === 'following') {
        report({ activity: 'following', reason: null, failure: null });
      }
    } catch (error) {
      hasChanges = true;
      if (signal.aborted) return;
      onFailure(error);
      observer.failed('run');
      report({ failure: runRetries.failed(error) });
    } finally {
      isRunning = false;
    }
  };

  /** For work outside of `attemptRun`: the next run finds out which changes a failure left. */
  const queueChanges = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    try {
      return await queues.changes.add(work);
    } catch (error) {
      hasChanges = true;
      throw error;
    }
  };

  /** One build at a time. A load replaces a compaction; a load that is requested during a compaction follows it. */
  const build = (kind: BuildKind, reason: string): Promise<void> => {
    if (building !== null && (building.kind === 'load' || kind === 'compact')) return building.done;
    const before = building?.done.catch(() => {}) ?? Promise.resolve();
    const done = before
      .then(() => buildNow(kind, reason))
      .finally(() => {
        if (building?.done === done) building = null;
      });
    building = { kind, done };
    return done;
  };

  const buildInBackground = (kind: BuildKind, reason: string) => {
    // `buildNow` reports the failure.
    void build(kind, reason).catch(() => {});
  };

  const buildNow = async (kind: BuildKind, reason: string) => {
    const activity = activityOf(kind, replicator.isPublished());
    state.buildQueued(kind, reason);
    report({ activity: 'waiting to load', reason });
    let isPublished: boolean;
    let startedAt = 0;
    try {
      isPublished = await queues.builds.add(async () => {
        signal.throwIfAborted();
        state.buildStarted(kind);
        log.info({ reason }, activity);
        report({ activity, reason, progress: null });
        startedAt = performance.now();
        const onProgress = createLoadProgressReport((progress) => report({ progress }), log);
        return replicator.build(kind, signal, onProgress);
      });
    } catch (error) {
      state.buildFailed();
      if (!signal.aborted) reportFailedBuild(kind, error);
      throw error;
    }
    state.buildPublished(kind);
    observer.built(kind, reason, performance.now() - startedAt);
    hasChanges = true;
    buildRetries[kind].succeeded();
    report({ activity: 'following', reason: null, progress: null, failure: null });
    if (!isPublished) await queueChanges(run);
  };

  const reportFailedBuild = (kind: BuildKind, error: unknown) => {
    onFailure(error);
    observer.failed(kind);
    const failure = buildRetries[kind].failed(error);
    if (kind === 'load') report({ failure });
    // Without a compaction, everything is published nonetheless. The pause bounds the wasted work.
    else report({ activity: 'following', reason: null, progress: null });
  };

  return {
    replicator,
    markChanged() {
      hasChanges = true;
    },
    requestRefresh() {
      isRefreshRequested = true;
    },
    upToDateGeneration: () =>
      hasChanges || isRunning || !isLiveUsable() ? null : replicator.publishedGeneration(),
    startDueWork() {
      const required = state.requiredLoad();
      if (required !== null && building === null && buildRetries.load.isDue()) {
        buildInBackground('load', required.reason);
      }
      const now = performance.now();
      // Failed work is repeated after its pause, also if a refresh is requested.
      const isPreferred = isRefreshRequested && !runRetries.isFailing() && now >= nextRefreshAt;
      const isDue = isPreferred || (now >= nextRunAt && runRetries.isDue());
      if (isLiveUsable() && hasChanges && !isRunning && isDue) {
        isRunning = true;
        void queues.changes.add(attemptRun, { priority: isPreferred ? 1 : 0 });
      }
      if (!hasChanges && !isRunning) isRefreshRequested = false;
    },
    async bringUpToDate() {
      await queues.changes.add(run);
      const required = state.requiredLoad();
      if (required !== null) {
        await build('load', required.reason);
        await queues.changes.add(run);
      }
      // A compaction that the run has started. Its failure is reported, and leaves what is published.
      await building?.done.catch(() => {});
      report({ activity: 'following', reason: null, failure: null });
    },
    build,
    async reread(ranges) {
      log.warn({ ranges: ranges.length }, 'reading purchases again that differ from Postgres');
      const isRepaired = await queueChanges(() => replicator.reread(ranges, signal));
      if (!isRepaired) await build('load', 'reading the purchases again does not repair the file');
    },
    isBusy: () => isRunning || building !== null,
    state() {
      const { failure, activity } = lastReport;
      if (failure !== null) return 'failed';
      if (activity !== 'following') return activity;
      if (state.name() !== 'following') return 'waiting to load';
      return replicator.publishedState().delta === null ? 'starting' : 'live';
    },
    async close() {
      await building?.done.catch(() => {});
      while (isRunning) await sleep(10);
      await reporter.settled();
      await replicator.close();
    },
  };
}

function activityOf(kind: BuildKind, isPublished: boolean) {
  if (kind === 'compact') return 'compacting';
  return isPublished ? 'rebuilding' : 'loading';
}
