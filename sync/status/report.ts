import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { replaceFile } from '../../src/replace-file.ts';

/**
 * What the worker says of an organization, in a small file beside its generations:
 * it is there for `status` whether the worker still lives or not.
 */
const organizationReport = z.object({
  /** `following` changes, or building the file: for the first time, anew, or in order. */
  activity: z.enum(['following', 'waiting to load', 'loading', 'rebuilding', 'sorting']),
  /** Why it is built. */
  reason: z.string().nullable(),
  progress: z
    .object({
      loaded: z.number(),
      expected: z.number(),
      /** Since it was begun or taken up again. */
      rowsPerSecond: z.number(),
    })
    .nullable(),
  /** The last attempt's, if it failed. */
  failure: z
    .object({
      message: z.string(),
      advice: z.string(),
      at: z.iso.datetime(),
      attempts: z.number(),
      retryAt: z.iso.datetime(),
    })
    .nullable(),
  at: z.iso.datetime(),
});
export type OrganizationReport = z.output<typeof organizationReport>;

const reportFile = (directory: string): string => join(directory, 'STATUS');

/** Null where no worker has said anything yet, or what it said cannot be read. */
export function readReport(directory: string): OrganizationReport | null {
  try {
    return organizationReport.parse(JSON.parse(readFileSync(reportFile(directory), 'utf8')));
  } catch {
    return null;
  }
}

/** How often progress, which changes all the time, is worth a file. */
const progressIntervalMs = 1_000;

export type Reporter = {
  report(report: Omit<OrganizationReport, 'at'>): void;
  /** Resolves when what was reported is written. */
  settled(): Promise<void>;
};

/** Writes reports in turn, leaving out those that a newer one has overtaken. */
export function createReporter(
  directory: string,
  onReport: (report: OrganizationReport) => void,
  /** Given null where the report was written, or its folder does not exist. */
  onWritten: (error: unknown) => void,
): Reporter {
  let waiting: OrganizationReport | null = null;
  let writing: Promise<void> | null = null;
  let last: { readonly report: OrganizationReport; readonly at: number } | null = null;

  const write = async () => {
    while (waiting !== null) {
      const report = waiting;
      waiting = null;
      // A full disk, or a folder that is gone, must not stop the work.
      await replaceFile(reportFile(directory), `${JSON.stringify(report)}\n`).then(
        () => onWritten(null),
        (error: NodeJS.ErrnoException) => onWritten(error.code === 'ENOENT' ? null : error),
      );
    }
    writing = null;
  };

  return {
    report(content) {
      const report = { ...content, at: new Date().toISOString() };
      if (last !== null && isMereProgress(last.report, report)) {
        if (performance.now() - last.at < progressIntervalMs) return;
      }
      if (last !== null && isSame(last.report, report)) return;
      last = { report, at: performance.now() };
      onReport(report);
      waiting = report;
      writing ??= write();
    },
    settled: async () => {
      await writing;
    },
  };
}

function isMereProgress(before: OrganizationReport, after: OrganizationReport): boolean {
  return isSame({ ...before, progress: null }, { ...after, progress: null });
}

function isSame(one: OrganizationReport, other: OrganizationReport): boolean {
  return JSON.stringify({ ...one, at: '' }) === JSON.stringify({ ...other, at: '' });
}
