import { setTimeout as sleep } from 'node:timers/promises';

/** Rejects with the signal's reason as soon as the signal is aborted. */
export function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

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
    const read = () => unlessAborted(readAsOf(organizationId, source, signal), signal);
    while ((await read()) < instant) await unlessAborted(sleep(pollIntervalMs), signal);
  };
}
