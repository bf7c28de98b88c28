import type { Logger } from 'pino';
import { backoffMs } from '../../src/backoff.ts';
import { describeFailure } from '../failure.ts';
import type { OrganizationReport } from '../status/worker-state.ts';

/** The retries of one kind of work, with a growing pause after each failure. */
export type Retries = {
  isFailing(): boolean;
  /** Whether the pause after the last failure is over. */
  isDue(): boolean;
  endPause(): void;
  succeeded(): void;
  /** Logs the failure, and returns its report. */
  failed(error: unknown): NonNullable<OrganizationReport['failure']>;
};

export function createRetries(log: Logger): Retries {
  let attempts = 0;
  /** Monotonic milliseconds. */
  let notBefore = 0;
  return {
    isFailing: () => attempts > 0,
    isDue: () => performance.now() >= notBefore,
    endPause() {
      notBefore = 0;
    },
    succeeded() {
      if (attempts > 0) log.info('works again');
      attempts = 0;
      notBefore = 0;
    },
    failed(error) {
      attempts += 1;
      const pauseMs = backoffMs(attempts);
      notBefore = performance.now() + pauseMs;
      const { message, advice } = describeFailure(error);
      log.error({ advice, attempts, retryInMs: Math.round(pauseMs) }, message);
      const now = Date.now();
      return {
        message,
        advice,
        at: new Date(now).toISOString(),
        attempts,
        retryAt: new Date(now + pauseMs).toISOString(),
      };
    },
  };
}
