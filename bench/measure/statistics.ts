/**
 * The value that a share of the measured ones does not exceed, in proportion where it lies
 * between two of them; NaN where there is none.
 */
export function quantile(measured: readonly number[], share: number): number {
  const sorted = [...measured].sort((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? Number.NaN;
  return below === above ? below : below + (above - below) * (place % 1);
}

export const median = (measured: readonly number[]): number => quantile(measured, 0.5);

/** Middle and spread of repeated measurements of one thing. */
export type Summary = {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
};

export function summarize(measured: readonly number[]): Summary {
  return {
    median: median(measured),
    lowerQuartile: quantile(measured, 0.25),
    upperQuartile: quantile(measured, 0.75),
  };
}

/**
 * Ratios of what was measured in the same round: whatever else the machine did then
 * hit both alike.
 */
export function pairedRatios(above: readonly number[], below: readonly number[]): number[] {
  return above.map((value, round) => value / (below[round] ?? Number.NaN));
}

/** Least squares: how much `y` rises with each unit of `x`; NaN where `x` does not vary. */
export function slope(points: readonly { readonly x: number; readonly y: number }[]): number {
  const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const meanX = mean(points.map(({ x }) => x));
  const meanY = mean(points.map(({ y }) => y));
  let covariance = 0;
  let variance = 0;
  for (const { x, y } of points) {
    covariance += (x - meanX) * (y - meanY);
    variance += (x - meanX) ** 2;
  }
  return covariance / variance;
}

/** Splits into `count` consecutive parts of nearly equal length. */
export function parts<Value>(values: readonly Value[], count: number): Value[][] {
  const boundary = (part: number) => Math.round((values.length * part) / count);
  return Array.from({ length: count }, (_, part) =>
    values.slice(boundary(part), boundary(part + 1)),
  );
}
