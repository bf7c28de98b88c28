import PQueue from 'p-queue';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Replicator } from '../../sync/schedule/replicator.ts';
import { createScheduler } from '../../sync/schedule/scheduler.ts';
import type { OrganizationReport, Reporter } from '../../sync/status/report.ts';

const schedulerOf = (replicator: object, report: Reporter['report'] = () => {}) =>
  createScheduler({
    replicator: replicator as Replicator,
    queues: { changes: new PQueue(), builds: new PQueue() },
    reporter: { report, settled: async () => {} },
    signal: new AbortController().signal,
    log: pino({ level: 'silent' }),
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
          return { kind: 'published', publication: { copyMs: 1 }, compactReason: null };
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
        return { kind: 'published', publication: { copyMs: 0 }, compactReason };
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
