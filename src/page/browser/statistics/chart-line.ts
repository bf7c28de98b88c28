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
 * The values of the line, and of points beside it: a line to a part of a period would look like a fall.
 */
export const partsOf = (
  values: readonly (number | null)[],
  isPartial: readonly boolean[],
): (number | null)[][] =>
  [false, true].map((part) =>
    values.map((value, index) => (isPartial[index] === part ? value : null)),
  );

/** Values without a neighbour, which no line shows. */
export function isolated(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, index) =>
    value != null && values[index - 1] == null && values[index + 1] == null ? [index] : [],
  );
}
