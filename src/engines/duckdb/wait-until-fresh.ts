import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves once an organization's data show `instant`; rejects with the signal's reason. */
export type WaitUntilFresh = (
  organizationId: bigint,
  source: string | null,
  instant: bigint,
  signal: AbortSignal,
) => Promise<void>;

type Waiter = {
  readonly instant: bigint;
  resolve(): void;
  reject(error: unknown): void;
};

const pollIntervalMs = 50;
const requestRefreshEveryMs = 1_000;

/**
 * One poll serves all requests that wait for an organization. `readAsOf` returns the instant of
 * the organization's data; its error rejects all waiting requests. While the data are older than
 * a request needs, `requestRefresh` is called once a second.
 */
export function createWaitUntilFresh(
  readAsOf: (organizationId: bigint, source: string | null) => Promise<bigint>,
  requestRefresh: (organizationId: bigint) => void,
): WaitUntilFresh {
  const waitersByKey = new Map<string, Set<Waiter>>();

  const poll = async (
    key: string,
    organizationId: bigint,
    source: string | null,
    waiters: Set<Waiter>,
  ) => {
    let requestedAt = Number.NEGATIVE_INFINITY;
    try {
      while (waiters.size > 0) {
        const asOf = await readAsOf(organizationId, source);
        for (const waiter of waiters) if (waiter.instant <= asOf) waiter.resolve();
        if (waiters.size === 0) break;
        if (performance.now() - requestedAt >= requestRefreshEveryMs) {
          requestedAt = performance.now();
          requestRefresh(organizationId);
        }
        await sleep(pollIntervalMs);
      }
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    } finally {
      waitersByKey.delete(key);
    }
  };

  return (organizationId, source, instant, signal) =>
    new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const key = `${organizationId} ${source}`;
      const waiters = waitersByKey.get(key) ?? new Set();
      const onAbort = () => waiter.reject(signal.reason);
      const remove = () => {
        waiters.delete(waiter);
        signal.removeEventListener('abort', onAbort);
      };
      const waiter: Waiter = {
        instant,
        resolve() {
          remove();
          resolve();
        },
        reject(error) {
          remove();
          reject(error);
        },
      };
      signal.addEventListener('abort', onAbort, { once: true });
      waiters.add(waiter);
      if (waitersByKey.has(key)) return;
      waitersByKey.set(key, waiters);
      void poll(key, organizationId, source, waiters);
    });
}
