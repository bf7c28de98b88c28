import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { noObserver } from '../../sync/metrics/observer.ts';
import type { Replicator } from '../../sync/schedule/replicator.ts';
import { createScheduler } from '../../sync/schedule/scheduler.ts';
import type { OrganizationReport, Reporter } from '../../sync/status/report.ts';
import { createRecordedLog } from '../support/logged-lines.ts';

const schedulerOf = (replicator: object, report: Reporter['report'] = () => {}) =>
  createScheduler({
    replicator: replicator as Replicator,
    queues: { changes: new PQueue(), builds: new PQueue() },
    reporter: { report, settled: async () => {} },
    signal: new AbortController().signal,
    log: createRecordedLog(),
    observer: noObserver,
    onFailure: () => {},
  });

describe('a build that could not publish its files', () => {
  it.each([true, false])(
    'succeeds or fails with the run that publishes them (the run succeeds: %s)',
    async (hasSpace) => {
      let runs = 0;
      const scheduler = schedulerOf({
        isPublished: () => true,
        build: async () => false,
        run: async () => {
          runs += 1;
          if (!hasSpace) throw new Error('no room');
          return { kind: 'published', writeMs: 1, compactReason: null };
        },
      });
      const built = scheduler.build('load', 'a rebuild was requested');
      await (hasSpace ? built : expect(built).rejects.toThrow('no room'));
      expect(runs).toBe(1);
    },
  );
});

describe('a compaction that fails', () => {
  it('is tried again after a minute, not in each run', async () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000_000);
    onTestFinished(() => clock.mockRestore());
    let builds = 0;
    const scheduler = schedulerOf({
      isPublished: () => true,
      hasUnfinishedBuild: async () => false,
      build: async () => {
        builds += 1;
        throw new Error('no room');
      },
      run: async () => {
        const compactReason = '30000 rows of changes';
        return { kind: 'published', writeMs: 0, compactReason };
      },
    });
    await scheduler.bringUpToDate();
    await scheduler.bringUpToDate();
    expect(builds).toBe(1);
    clock.mockReturnValue(1_000_000 + 60_000);
    await scheduler.bringUpToDate();
    expect(builds).toBe(2);
  });
});

describe('a load that fails', () => {
  it('is not replaced by a compaction, and is tried again', async () => {
    const builds: string[] = [];
    const scheduler = schedulerOf({
      isPublished: () => true,
      build: async (kind: string) => {
        builds.push(kind);
        if (builds.length === 1) throw new Error('no room');
        return true;
      },
      run: async () => {
        const compactReason = '30000 rows of changes';
        return { kind: 'published', writeMs: 0, compactReason };
      },
    });
    await expect(scheduler.build('load', 'a rebuild was requested')).rejects.toThrow('no room');
    await scheduler.bringUpToDate();
    expect(builds).toEqual(['load', 'load', 'compact']);
  });
});

describe('a build that fails', () => {
  it.each([
    ['compact', null],
    ['load', 'no room'],
  ] as const)(
    'is a failure in the report only if the organization needs it: %s',
    async (kind, message) => {
      const reports: Omit<OrganizationReport, 'at'>[] = [];
      const replicator = {
        isPublished: () => true,
        build: async () => {
          throw new Error('no room');
        },
      };
      const scheduler = schedulerOf(replicator, (report) => reports.push(report));
      await expect(scheduler.build(kind, 'a reason')).rejects.toThrow('no room');
      expect(reports.at(-1)?.failure?.message ?? null).toBe(message);
      expect(reports.at(-1)?.activity).toBe(kind === 'compact' ? 'following' : 'rebuilding');
    },
  );
});

const slowTest = test
  /** A scheduler whose last publication took an hour. Further changes wait. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('slow', async ({}) => {
    let runs = 0;
    let isFailing = false;
    // The scheduler uses these parts of a replicator.
    const replicator = {
      hasUnfinishedBuild: async () => false,
      publishedGeneration: () => 'generation.duckdb',
      run: async () => {
        runs += 1;
        if (isFailing) throw new Error('no');
        return { kind: 'published', writeMs: 3_600_000, compactReason: null };
      },
    };
    const scheduler = schedulerOf(replicator);
    const runsWhenDue = async () => {
      scheduler.startDueWork();
      while (scheduler.isBusy()) await sleep(1);
      return runs;
    };
    const failNextRuns = () => {
      isFailing = true;
    };
    expect(await runsWhenDue()).toBe(1);
    expect(scheduler.upToDateGeneration()).toBe('generation.duckdb');
    scheduler.markChanged();
    expect(scheduler.upToDateGeneration()).toBeNull();
    expect(await runsWhenDue()).toBe(1);
    return { scheduler, runsWhenDue, failNextRuns };
  });

describe('an organization that is published rarely, because copying its file takes long', () => {
  const it = slowTest;

  it('is published at once for a refresh request, but not for the next one', async ({
    slow: { scheduler, runsWhenDue },
  }) => {
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    scheduler.markChanged();
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
  });

  it('is not published earlier by a refresh request that found no changes', async ({
    slow: { scheduler, runsWhenDue },
  }) => {
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    scheduler.markChanged();
    expect(await runsWhenDue()).toBe(2);
  });

  it('is retried after its pause, not by a refresh request, if publishing failed', async ({
    slow: { scheduler, runsWhenDue, failNextRuns },
  }) => {
    failNextRuns();
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    scheduler.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    expect(scheduler.upToDateGeneration()).toBeNull();
  });
});
