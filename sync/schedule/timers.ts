import { setTimeout as sleep } from 'node:timers/promises';

const checkIntervalMs = 50;

/** Waits until the time has passed, `isOver` (called repeatedly) returns true, or the signal is aborted. */
export async function pauseUntil(
  pauseMs: number,
  isOver: () => boolean,
  signal: AbortSignal,
): Promise<void> {
  const until = performance.now() + pauseMs;
  for (let left = pauseMs; left > 0 && !signal.aborted; left = until - performance.now()) {
    await sleep(Math.min(left, checkIntervalMs), undefined, { signal }).catch(() => {});
    if (isOver()) return;
  }
}

/** True at the first call and whenever `intervalMs` have passed since it was last true. */
export function every(intervalMs: number): () => boolean {
  let next = 0;
  return () => {
    const now = performance.now();
    if (now < next) return false;
    next = now + intervalMs;
    return true;
  };
}
