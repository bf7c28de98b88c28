import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../../src/json-file.ts';
import { replaceFile } from '../../src/replace-file.ts';

/** The state of an organization, in a file beside its generations that outlives the worker. */
const organizationReport = z.object({
  activity: z.enum(['following', 'waiting to load', 'loading', 'rebuilding', 'compacting']),
  /** The reason of a build. */
  reason: z.string().nullable(),
  progress: z
    .object({
      loaded: z.number(),
      expected: z.number(),
      /** Since the load began or resumed. */
      rowsPerSecond: z.number(),
    })
    .nullable(),
  /** The failure of the last attempt; null if it succeeded. */
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

export const readReport = (directory: string): OrganizationReport | null =>
  readJsonFile(reportFile(directory), organizationReport);

/** The remaining time is null before the first rows. */
export function estimateProgress({
  loaded,
  expected,
  rowsPerSecond,
}: NonNullable<OrganizationReport['progress']>) {
  const percent = Math.floor((100 * loaded) / Math.max(1, loaded, expected));
  const secondsLeft =
    rowsPerSecond === 0 ? null : Math.ceil(Math.max(0, expected - loaded) / rowsPerSecond);
  return { percent, secondsLeft };
}

/** The minimum time between reports that differ only in progress. */
const progressIntervalMs = 1_000;

export type Reporter = {
  report(report: Omit<OrganizationReport, 'at'>): void;
  /** Resolves when the last report is written. */
  settled(): Promise<void>;
};

/** Writes one report at a time, and skips reports that a newer one replaces. */
export function createReporter(
  directory: string,
  onReport: (report: OrganizationReport) => void,
  /** Receives null if the report was written, or the folder does not exist. */
  onWritten: (error: unknown) => void,
): Reporter {
  let waiting: OrganizationReport | null = null;
  let writing: Promise<void> | null = null;
  let last: { readonly report: OrganizationReport; readonly at: number } | null = null;

  const write = async () => {
    while (waiting !== null) {
      const report = waiting;
      waiting = null;
      // A full disk or a deleted folder must not stop the worker.
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
      if (last !== null && differsInProgressOnly(last.report, report)) {
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

function differsInProgressOnly(before: OrganizationReport, after: OrganizationReport): boolean {
  return isSame({ ...before, progress: null }, { ...after, progress: null });
}

function isSame(one: OrganizationReport, other: OrganizationReport): boolean {
  return JSON.stringify({ ...one, at: '' }) === JSON.stringify({ ...other, at: '' });
}
