import { setTimeout as sleep } from 'node:timers/promises';
import { unlessAborted } from './unless-aborted.ts';

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
