import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves once an organization's data show `instant`; rejects with the signal's reason. */
export type WaitUntilFresh = (
  organizationId: bigint,
  source: string | null,
  instant: bigint,
  signal: AbortSignal,
) => Promise<void>;

const pollIntervalMs = 50;

/** Polls `readAsOf`, the instant of the organization's data. The worker publishes without a request. */
export function createWaitUntilFresh(
  readAsOf: (organizationId: bigint, source: string | null, signal: AbortSignal) => Promise<bigint>,
): WaitUntilFresh {
  return async (organizationId, source, instant, signal) => {
    signal.throwIfAborted();
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    aborted.catch(() => {});
    while ((await Promise.race([readAsOf(organizationId, source, signal), aborted])) < instant) {
      await Promise.race([sleep(pollIntervalMs), aborted]);
    }
  };
}
