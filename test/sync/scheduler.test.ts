import PQueue from 'p-queue';
import { pino } from 'pino';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { Replicator } from '../../sync/schedule/replicator.ts';
import { createScheduler } from '../../sync/schedule/scheduler.ts';
import type { OrganizationReport, Reporter } from '../../sync/status/report.ts';

const taskOf = (sync: object, report: Reporter['report'] = () => {}) =>
  createScheduler({
    replicator: sync as Replicator,
    queues: { changes: new PQueue(), builds: new PQueue() },
    reporter: { report, settled: async () => {} },
    signal: new AbortController().signal,
    log: pino({ level: 'silent' }),
    onFailure: () => {},
  });

describe('a build that could not be published', () => {
  it.each([true, false])(
    'is over once a run has published it, and fails as that does: %s',
    async (isPossible) => {
      let runs = 0;
      const task = taskOf({
        isPublished: () => true,
        build: async () => false,
        run: async () => {
          runs += 1;
          if (!isPossible) throw new Error('no room');
          return { kind: 'published', publication: { copyMs: 1 }, compactReason: null };
        },
      });
      const built = task.build('load', 'a rebuild was requested');
      await (isPossible ? built : expect(built).rejects.toThrow('no room'));
      expect(runs).toBe(1);
    },
  );
});

describe('a compaction that fails', () => {
  it('is repeated after a pause, not by each run', async () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(1_000_000);
    onTestFinished(() => clock.mockRestore());
    let builds = 0;
    const scheduler = taskOf({
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
  ] as const)('is told of where it is tried again: %s', async (kind, message) => {
    const reports: Omit<OrganizationReport, 'at'>[] = [];
    const sync = {
      isPublished: () => true,
      build: async () => {
        throw new Error('no room');
      },
    };
    const task = taskOf(sync, (report) => reports.push(report));
    await expect(task.build(kind, 'it is worth while')).rejects.toThrow('no room');
    expect(reports.at(-1)?.failure?.message ?? null).toBe(message);
    expect(reports.at(-1)?.activity).toBe(kind === 'compact' ? 'following' : 'rebuilding');
  });
});
