import { setTimeout as sleep } from 'node:timers/promises';
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import type { PublishedGeneration } from '../../src/purchase-store/published-generation.ts';
import { describeFailure } from '../failure.ts';
import type { OrganizationReport, Reporter } from '../status/report.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';
import { progressTeller } from './progress-teller.ts';
import type { BuildKind, Replicator } from './replicator.ts';

/** One organization as the worker sees it: what it waits for, does and has failed at. */
export type Scheduler = {
  readonly sync: Replicator;
  /** Changes are known that no finished run has applied. */
  noticeChanges(): void;
  /** Somebody waits: what is due, or will be, is done before its turn. */
  requestRefresh(): void;
  /**
   * The generation that shows whatever the last look at the change log could see of the
   * organization; null where there may be changes that no run has published yet.
   */
  upToDateGeneration(): PublishedGeneration | null;
  /** Puts what is due into the queues. */
  startWhatIsDue(): void;
  /** Brings up to date once, building first where that is needed; rejects as the work does. */
  bringUpToDate(): Promise<void>;
  /** Builds the file, for a reason to be shown, and resolves when that is published. */
  build(kind: BuildKind, reason: string): Promise<void>;
  /** Reads ranges of purchases again, or builds the file where that would not help. */
  reread(ranges: readonly PurchaseRange[]): Promise<void>;
  isBusy(): boolean;
  close(): Promise<void>;
};

export type Queues = {
  readonly changes: PQueue;
  /** Apart from the changes: a long load keeps nobody else from being up to date. */
  readonly builds: PQueue;
};

// Publishing copies the file: never more often than this, nor more than a
// tenth of the time.
const shortestCadenceMs = 250;
const copyShare = 10;
// Where somebody waits: not more often than this, nor more than a third of the time.
const minRefreshIntervalMs = 1_000;
const refreshCopyShare = 3;

type Retries = { attempts: number /** Monotonic milliseconds. */; notBefore: number };

export function createScheduler(options: {
  readonly sync: Replicator;
  readonly queues: Queues;
  readonly reporter: Reporter;
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** Told of each failure that is tried again. */
  readonly onFailure: (error: unknown) => void;
}): Scheduler {
  const { sync, queues, reporter, signal, log, onFailure } = options;
  let hasChanges = true;
  let isRunning = false;
  let isStarted = false;
  let isRefreshRequested = false;
  /** When the next run may begin before its turn; monotonic milliseconds. */
  let refreshNotBefore = 0;
  /** Only a build can make the live file usable again. */
  let mustBeBuilt: string | null = null;
  let building: { readonly kind: BuildKind; readonly done: Promise<void> } | null = null;
  /** Why a load was begun that has not come to its end: it is tried until it does. */
  let unfinished: string | null = null;
  const runs: Retries = { attempts: 0, notBefore: 0 };
  const builds: Retries = { attempts: 0, notBefore: 0 };
  let report: Omit<OrganizationReport, 'at'> = {
    activity: 'following',
    reason: null,
    progress: null,
    failure: null,
  };

  const tell = (news: Partial<typeof report>) => {
    report = { ...report, ...news };
    reporter.report(report);
  };

  const succeeded = (retries: Retries) => {
    if (retries.attempts > 0) log.info('works again');
    retries.attempts = 0;
  };

  const failed = (retries: Retries, error: unknown) => {
    if (signal.aborted) return;
    onFailure(error);
    retries.attempts += 1;
    const pause = backoffMs(retries.attempts);
    retries.notBefore = performance.now() + pause;
    const { message, advice } = describeFailure(error);
    const { attempts } = retries;
    log.error({ advice, attempts, retryInMs: Math.round(pause) }, message);
    const [at, retryAt] = [0, pause].map((ms) => new Date(Date.now() + ms).toISOString());
    tell({ failure: { message, advice, at: at as string, attempts, retryAt: retryAt as string } });
  };

  /** It is not tried again before it is found worth while again: nothing is owed until then. */
  const gaveUpSorting = (error: unknown) => {
    if (signal.aborted) return;
    onFailure(error);
    const { message, advice } = describeFailure(error);
    log.warn({ advice }, `not sorted: ${message}`);
    tell({ activity: 'following', reason: null, progress: null });
  };

  const runOnce = async () => {
    // Changes noticed from here on may come too late for this run.
    hasChanges = false;
    const wasRefreshRequested = isRefreshRequested;
    isRefreshRequested = false;
    const startedAt = performance.now();
    const outcome = await sync.run(signal);
    if (outcome.kind === 'must be built') {
      mustBeBuilt = outcome.reason;
      return;
    }
    mustBeBuilt = null;
    const pause = Math.max(shortestCadenceMs, outcome.publication.copyMs * copyShare);
    runs.notBefore = startedAt + pause;
    if (wasRefreshRequested) {
      const { copyMs } = outcome.publication;
      refreshNotBefore = startedAt + Math.max(minRefreshIntervalMs, copyMs * refreshCopyShare);
    }
    if (outcome.sortReason !== null) void build('sort', outcome.sortReason).catch(() => {});
  };

  /** Whatever it got to, the next run finds out. */
  const notApplied = (error: unknown): never => {
    hasChanges = true;
    throw error;
  };

  const attemptRun = async () => {
    try {
      if (!isStarted && (await sync.hasUnfinishedBuild())) {
        void build('load', 'a build was broken off').catch(() => {});
      }
      isStarted = true;
      await runOnce();
      succeeded(runs);
      if (building === null && mustBeBuilt === null && unfinished === null)
        tell({ activity: 'following', reason: null, failure: null });
    } catch (error) {
      hasChanges = true;
      failed(runs, error);
    } finally {
      isRunning = false;
    }
  };

  /** One at a time. Sorting is needless while everything is loaded; a load comes after sorting. */
  const build = (kind: BuildKind, reason: string): Promise<void> => {
    if (building !== null && (building.kind === 'load' || kind === 'sort')) return building.done;
    const before = building?.done.catch(() => {}) ?? Promise.resolve();
    const done = before
      .then(() => buildNow(kind, reason))
      .finally(() => {
        if (building?.done === done) building = null;
      });
    building = { kind, done };
    return done;
  };

  const buildNow = async (kind: BuildKind, reason: string) => {
    const activity = activityOf(kind, sync.isPublished());
    // Sorting can wait until it is found worth while again.
    if (kind === 'load') unfinished = reason;
    tell({ activity: 'waiting to load', reason });
    let isPublished = false;
    try {
      isPublished = await queues.builds.add(async () => {
        signal.throwIfAborted();
        log.info({ reason }, activity);
        tell({ activity, reason, progress: null });
        return sync.build(
          kind,
          signal,
          progressTeller((progress) => tell({ progress }), log),
        );
      });
      mustBeBuilt = null;
      unfinished = null;
      hasChanges = true;
      succeeded(builds);
      tell({ activity: 'following', reason: null, progress: null, failure: null });
    } catch (error) {
      if (kind === 'load') failed(builds, error);
      else gaveUpSorting(error);
      throw error;
    }
    if (!isPublished) await queues.changes.add(runOnce).catch(notApplied);
  };

  return {
    sync,
    noticeChanges() {
      hasChanges = true;
    },
    requestRefresh() {
      isRefreshRequested = true;
    },
    upToDateGeneration: () =>
      hasChanges || isRunning || mustBeBuilt !== null ? null : sync.publishedGeneration(),
    startWhatIsDue() {
      const now = performance.now();
      const reason = mustBeBuilt ?? unfinished;
      if (reason !== null && building === null && now >= builds.notBefore) {
        void build('load', reason).catch(() => {});
      }
      // What failed is tried again in its own time, whoever waits.
      const isPreferred = isRefreshRequested && runs.attempts === 0 && now >= refreshNotBefore;
      const isDue = isPreferred || now >= runs.notBefore;
      if (mustBeBuilt === null && hasChanges && !isRunning && isDue) {
        isRunning = true;
        void queues.changes.add(attemptRun, { priority: isPreferred ? 1 : 0 });
      }
      // Nothing is outstanding: nobody waits any longer.
      if (!hasChanges && !isRunning) isRefreshRequested = false;
    },
    async bringUpToDate() {
      await queues.changes.add(runOnce);
      if (mustBeBuilt !== null) {
        await build('load', mustBeBuilt);
        await queues.changes.add(runOnce);
      }
      tell({ activity: 'following', reason: null, failure: null });
    },
    build,
    async reread(ranges) {
      log.warn({ ranges: ranges.length }, 'reading purchases again that differ from Postgres');
      const isMended = await queues.changes
        .add(() => sync.reread(ranges, signal))
        .catch(notApplied);
      if (!isMended) await build('load', 'what differs cannot be mended by reading it again');
    },
    isBusy: () => isRunning || building !== null,
    async close() {
      await building?.done.catch(() => {});
      while (isRunning) await sleep(10);
      await reporter.settled();
      await sync.close();
    },
  };
}

function activityOf(kind: BuildKind, isPublished: boolean) {
  if (kind === 'sort') return 'sorting';
  return isPublished ? 'rebuilding' : 'loading';
}
