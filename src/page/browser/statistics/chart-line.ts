export type ChartLine = {
  readonly label: string;
  /** What the tooltip calls each value. */
  readonly names: readonly string[];
  readonly values: readonly (number | null)[];
  /** The exact value as text. */
  text(index: number): string;
  /** A colour of styles/base.css, such as `--line-1`. */
  readonly color: string;
};

/**
 * The values of the line, and of a point beside it: if the last period is not over, the line ends
 * before it, because a line to a part of a day would look like a fall.
 */
export function partsOf(
  values: readonly (number | null)[],
  isUnfinished: boolean,
): (number | null)[][] {
  const last = isUnfinished ? values.length - 1 : values.length;
  return [
    values.map((value, index) => (index < last ? value : null)),
    values.map((value, index) => (index >= last ? value : null)),
  ];
}

/** Values without a neighbour, which no line shows. */
export function isolated(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, index) =>
    value != null && values[index - 1] == null && values[index + 1] == null ? [index] : [],
  );
}
