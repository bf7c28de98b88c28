import type { Logger } from 'pino';
import type { LoadProgress } from '../capture/watermark.ts';
import type { OrganizationReport } from '../status/report.ts';

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
    report({ loaded, expected, rowsPerSecond });
    if (now - loggedAt < logIntervalMs) return;
    loggedAt = now;
    const secondsLeft = Math.ceil(Math.max(0, expected - loaded) / Math.max(1, rowsPerSecond));
    const percent = Math.floor((100 * loaded) / Math.max(1, expected, loaded));
    log.info({ percent, loaded, rowsPerSecond, secondsLeft }, 'reading purchases');
  };
}
