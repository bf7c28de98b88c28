import type { Logger } from 'pino';
import type { LoadProgress } from '../capture/watermark.ts';
import { estimateProgress, type OrganizationReport } from '../status/report.ts';

const logIntervalMs = 10_000;

/** Reports the progress of a load with its rate, and logs both every ten seconds. */
export function createLoadProgressReport(
  report: (progress: OrganizationReport['progress']) => void,
  log: Logger,
): (progress: LoadProgress) => void {
  const startedAt = performance.now();
  let first: number | null = null;
  let loggedAt = startedAt;
  return ({ loaded, expected }) => {
    if (first === null && loaded > 0) {
      log.info({ loaded, expected }, 'continuing an interrupted load');
    }
    first ??= loaded;
    const now = performance.now();
    const rowsPerSecond = Math.round(((loaded - first) / Math.max(1, now - startedAt)) * 1000);
    const progress = { loaded, expected, rowsPerSecond };
    report(progress);
    if (now - loggedAt < logIntervalMs) return;
    loggedAt = now;
    log.info({ ...estimateProgress(progress), loaded, rowsPerSecond }, 'reading purchases');
  };
}
