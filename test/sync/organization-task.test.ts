import PQueue from 'p-queue';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import type { OrganizationSync } from '../../sync/organization-sync.ts';
import { createOrganizationTask } from '../../sync/organization-task.ts';
import type { OrganizationReport } from '../../sync/report.ts';

describe('a build that fails', () => {
  it.each([
    ['sort', null],
    ['load', 'no room'],
  ] as const)('is told of where it is tried again: %s', async (kind, message) => {
    const reports: Omit<OrganizationReport, 'at'>[] = [];
    const sync = {
      isPublished: () => true,
      build: async () => {
        throw new Error('no room');
      },
    };
    const task = createOrganizationTask({
      sync: sync as unknown as OrganizationSync,
      queues: { changes: new PQueue(), builds: new PQueue() },
      reporter: {
        report: (report) => reports.push(report),
        settled: async () => {},
      },
      signal: new AbortController().signal,
      log: pino({ level: 'silent' }),
      onFailure: () => {},
    });
    await expect(task.build(kind, 'it is worth while')).rejects.toThrow('no room');
    expect(reports.at(-1)?.failure?.message ?? null).toBe(message);
    expect(reports.at(-1)?.activity).toBe(kind === 'sort' ? 'following' : 'rebuilding');
  });
});
