import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { sendWorkerRequest } from '../purchase-store/worker-requests.ts';

/** Resolves once an organization's data show `instant`; rejects with the signal's reason. */
export type WaitUntilFresh = (
  organizationId: bigint,
  source: string | null,
  instant: bigint,
  signal: AbortSignal,
) => Promise<void>;

const pollIntervalMs = 50;
const requestRefreshEveryMs = 1_000;
const maxOrganizations = 10_000;

/**
 * Polls `readAsOf`, the instant of the organization's data. While the data are older than
 * `instant`, an organization's requests together request a refresh once a second, from a worker
 * that uses the same data folder.
 */
export function createWaitUntilFresh(
  readAsOf: (organizationId: bigint, source: string | null, signal: AbortSignal) => Promise<bigint>,
  dataDirectory: string,
): WaitUntilFresh {
  const requested = new LRUCache<bigint, true>({
    max: maxOrganizations,
    ttl: requestRefreshEveryMs,
  });
  return async (organizationId, source, instant, signal) => {
    signal.throwIfAborted();
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    aborted.catch(() => {});
    while ((await Promise.race([readAsOf(organizationId, source, signal), aborted])) < instant) {
      if (!requested.has(organizationId)) {
        requested.set(organizationId, true);
        requestRefresh(dataDirectory, organizationId);
      }
      await Promise.race([sleep(pollIntervalMs), aborted]);
    }
    // The next write needs a new refresh request at once.
    requested.delete(organizationId);
  };
}

function requestRefresh(dataDirectory: string, organizationId: bigint): void {
  try {
    sendWorkerRequest(dataDirectory, 'refresh', organizationId);
  } catch {
    // The worker publishes at its next regular time.
  }
}
