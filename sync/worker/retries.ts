import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { backoffMs } from '../../src/process/backoff.ts';
import { describeFailure } from '../failure.ts';
import type { Reports } from './status-reports.ts';

/** What a worker repeats for an organization, with a pause that grows with each failure. */
type Work = 'join' | 'build' | 'compaction';

export type Retries = ReturnType<typeof createRetries>;

type Attempts = {
  count: number;
  /** Monotonic milliseconds. */
  notBefore: number;
};

export function createRetries(options: {
  readonly reports: Reports;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
}) {
  const { reports, onError } = options;
  const failing: Readonly<Record<Work, Map<bigint, Attempts>>> = {
    join: new Map(),
    build: new Map(),
    compaction: new Map(),
  };
  const logOf = (id: bigint) => options.log.child({ organization: encodeId('organization', id) });

  return {
    /** Whether the pause after the last failure is over. */
    isDue: (work: Work, id: bigint): boolean =>
      performance.now() >= (failing[work].get(id)?.notBefore ?? 0),

    /** Logs and reports the failure. Everything is published also without a compaction, so its failure is only logged. */
    failed(work: Work, id: bigint, error: unknown): void {
      onError(error);
      const attempts = (failing[work].get(id)?.count ?? 0) + 1;
      const pauseMs = backoffMs(attempts);
      failing[work].set(id, { count: attempts, notBefore: performance.now() + pauseMs });
      const { message, advice } = describeFailure(error);
      logOf(id).error({ advice, attempts, retryInMs: Math.round(pauseMs) }, message);
      if (work === 'compaction') return;
      const now = Date.now();
      const at = new Date(now).toISOString();
      const retryAt = new Date(now + pauseMs).toISOString();
      reports.report(id, { progress: null, failure: { message, advice, at, attempts, retryAt } });
    },

    /** True if the last attempt had failed. */
    succeeded(work: Work, id: bigint): boolean {
      const hadFailed = failing[work].delete(id);
      if (hadFailed) logOf(id).info('works again');
      return hadFailed;
    },

    endPauses(): void {
      for (const all of Object.values(failing)) {
        for (const attempts of all.values()) attempts.notBefore = 0;
      }
    },

    /** The organization was deleted. */
    forget(id: bigint): void {
      for (const all of Object.values(failing)) all.delete(id);
    },
  };
}
