const defaultMaxMs = 60_000;

/** Exponential backoff with jitter, from one second to `maxMs`. */
export function backoffMs(failures: number, maxMs = defaultMaxMs): number {
  const delayMs = Math.min(maxMs, 1000 * 2 ** Math.min(failures - 1, 20));
  return delayMs * (0.5 + Math.random() / 2);
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
