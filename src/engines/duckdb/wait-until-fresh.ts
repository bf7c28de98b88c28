import { setTimeout as sleep } from 'node:timers/promises';

/** Resolves once an organization's data are of `instant` or later; rejects with the signal's reason. */
export type WaitUntil = (
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

const lookEveryMs = 50;
const requestRefreshEveryMs = 1_000;

/**
 * However many wait for an organization, one looks for all of them. `look` gives the
 * instant of the organization's data at present and its error to all who wait;
 * `requestRefresh` is called where that is not enough, and again every second that it is not.
 */
export function createWaitUntilFresh(
  look: (organizationId: bigint, source: string | null) => Promise<bigint>,
  requestRefresh: (organizationId: bigint) => void,
): WaitUntil {
  const waitingFor = new Map<string, Set<Waiter>>();

  const serve = async (
    key: string,
    organizationId: bigint,
    source: string | null,
    waiters: Set<Waiter>,
  ) => {
    let requestedAt = Number.NEGATIVE_INFINITY;
    try {
      while (waiters.size > 0) {
        const asOf = await look(organizationId, source);
        for (const waiter of waiters) if (waiter.instant <= asOf) waiter.resolve();
        if (waiters.size === 0) break;
        if (performance.now() - requestedAt >= requestRefreshEveryMs) {
          requestedAt = performance.now();
          requestRefresh(organizationId);
        }
        await sleep(lookEveryMs);
      }
    } catch (error) {
      for (const waiter of waiters) waiter.reject(error);
    } finally {
      waitingFor.delete(key);
    }
  };

  return (organizationId, source, instant, signal) =>
    new Promise((resolve, reject) => {
      const key = `${organizationId} ${source}`;
      const waiters = waitingFor.get(key) ?? new Set();
      const leave = () => {
        waiters.delete(waiter);
        signal.removeEventListener('abort', giveUp);
      };
      const giveUp = () => waiter.reject(signal.reason);
      const waiter: Waiter = {
        instant,
        resolve() {
          leave();
          resolve();
        },
        reject(error) {
          leave();
          reject(error);
        },
      };
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      signal.addEventListener('abort', giveUp, { once: true });
      waiters.add(waiter);
      if (waitingFor.has(key)) return;
      waitingFor.set(key, waiters);
      void serve(key, organizationId, source, waiters);
    });
}
