/** The value that a share of the values does not exceed, interpolated; NaN if there is no value. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const below = sorted[Math.floor(place)] ?? Number.NaN;
  const above = sorted[Math.ceil(place)] ?? Number.NaN;
  return below === above ? below : below + (above - below) * (place % 1);
}

export const median = (values: readonly number[]): number => quantile(values, 0.5);

/** Median and quartiles of repeated measurements. */
export type Summary = {
  readonly median: number;
  readonly lowerQuartile: number;
  readonly upperQuartile: number;
};

export function summarize(values: readonly number[]): Summary {
  return {
    median: median(values),
    lowerQuartile: quantile(values, 0.25),
    upperQuartile: quantile(values, 0.75),
  };
}

/** The summary of one figure of each item. */
export const summaryOf = <Item>(items: readonly Item[], figure: (item: Item) => number): Summary =>
  summarize(items.map(figure));

/** The ratios of two figures of the same round, which other programs slow alike. */
export function ratioOf<Item>(
  numerators: readonly Item[],
  denominators: readonly Item[],
  figure: (item: Item) => number,
): Summary {
  const ratios = numerators.map((numerator, round) => {
    const denominator = denominators[round];
    return denominator === undefined ? Number.NaN : figure(numerator) / figure(denominator);
  });
  return summarize(ratios);
}
