const defaultMaxMs = 60_000;

/** Exponential backoff with jitter, from one second to `maxMs`. */
export function backoffMs(failures: number, maxMs = defaultMaxMs): number {
  const delayMs = Math.min(maxMs, 1000 * 2 ** Math.min(failures - 1, 20));
  return delayMs * (0.5 + Math.random() / 2);
}
