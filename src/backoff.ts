const longestBackoffMs = 60_000;

/** Doubles from a second to `most`, spread so that many do not retry at once. */
export function backoffMs(failures: number, most = longestBackoffMs): number {
  const longest = Math.min(most, 1000 * 2 ** Math.min(failures - 1, 20));
  return longest * (0.5 + Math.random() / 2);
}
