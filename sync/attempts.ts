import { backoffMs } from '../src/process/backoff.ts';
import { describeFailure } from './describe-failure.ts';
import type { OrganizationReport } from './organization-report.ts';

/** What a worker repeats, with a pause that grows with each failure. */
export type Attempted = 'join' | 'build' | 'compaction';

type FailedAttempt = {
  readonly failure: NonNullable<OrganizationReport['failure']>;
  /** The end of the pause, in monotonic milliseconds. */
  notBefore: number;
};

/** The last attempts of an organization, if they failed. */
export type FailedAttempts = Record<Attempted, FailedAttempt | null>;

/** Whether the pause after the last failure is over. */
export const isDue = (failed: FailedAttempts, attempted: Attempted): boolean =>
  performance.now() >= (failed[attempted]?.notBefore ?? 0);

/** Notes a failure, and when the next attempt is due. Returns it with the pause, in milliseconds. */
export function noteFailure(failed: FailedAttempts, attempted: Attempted, error: unknown) {
  const attempts = (failed[attempted]?.failure.attempts ?? 0) + 1;
  const pauseMs = backoffMs(attempts);
  const now = Date.now();
  const failure = {
    ...describeFailure(error),
    attempts,
    at: new Date(now).toISOString(),
    retryAt: new Date(now + pauseMs).toISOString(),
  };
  failed[attempted] = { failure, notBefore: performance.now() + pauseMs };
  return { failure, pauseMs };
}

/** Notes a success. True if the last attempt had failed. */
export function noteSuccess(failed: FailedAttempts, attempted: Attempted): boolean {
  const hadFailed = failed[attempted] !== null;
  failed[attempted] = null;
  // After a build, the organization follows.
  if (attempted === 'build') failed.join = null;
  return hadFailed;
}

export function endPauses(failed: FailedAttempts): void {
  for (const attempt of Object.values(failed)) if (attempt !== null) attempt.notBefore = 0;
}
