import PQueue from 'p-queue';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
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
