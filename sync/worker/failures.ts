import type { Logger } from 'pino';
import { encodeId } from '../../src/domain/public-id.ts';
import { backoffMs } from '../../src/process/backoff.ts';
import { describeFailure } from '../failure.ts';
import type { Reports } from './reports.ts';

/** What a worker repeats for an organization, with a pause that grows with each failure. */
export type Work = 'join' | 'build' | 'compaction';

export type Failures = {
  /** Whether the pause after the last failure is over. */
  isDue(work: Work, organizationId: bigint): boolean;
  /** Logs and reports the failure. Everything is published also without a compaction, so its failure is only logged. */
  failed(work: Work, organizationId: bigint, error: unknown): void;
  /** True if the last attempt had failed. */
  succeeded(work: Work, organizationId: bigint): boolean;
  endPauses(): void;
  /** The organization was deleted. */
  forget(organizationId: bigint): void;
};

type Attempts = {
  count: number;
  /** Monotonic milliseconds. */
  notBefore: number;
};

export function createFailures(options: {
  readonly reports: Reports;
  readonly log: Logger;
  readonly onError: (error: unknown) => void;
}): Failures {
  const { reports, onError } = options;
  const failing: Readonly<Record<Work, Map<bigint, Attempts>>> = {
    join: new Map(),
    build: new Map(),
    compaction: new Map(),
  };
  const logOf = (id: bigint) => options.log.child({ organization: encodeId('organization', id) });

  return {
    isDue: (work, id) => performance.now() >= (failing[work].get(id)?.notBefore ?? 0),
    failed(work, id, error) {
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
    succeeded(work, id) {
      const hadFailed = failing[work].delete(id);
      if (hadFailed) logOf(id).info('works again');
      return hadFailed;
    },
    endPauses() {
      for (const all of Object.values(failing)) {
        for (const attempts of all.values()) attempts.notBefore = 0;
      }
    },
    forget(id) {
      for (const all of Object.values(failing)) all.delete(id);
    },
  };
}
