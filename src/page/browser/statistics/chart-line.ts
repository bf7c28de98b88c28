export type ChartLine = {
  readonly label: string;
  /** What the tooltip calls each value. */
  readonly names: readonly string[];
  readonly values: readonly (number | null)[];
  /** The exact value as text. */
  text(index: number): string;
  /** A colour of page.css, such as `--line-1`. */
  readonly color: string;
  /** Whether the last period goes on: it is drawn dashed. */
  readonly isUnfinished: boolean;
};

/** The values of the solid and of the dashed part, which share a point. */
export function partsOf({
  values,
  isUnfinished,
}: Pick<ChartLine, 'values' | 'isUnfinished'>): (number | null)[][] {
  const last = isUnfinished ? values.length - 1 : values.length;
  return [
    values.map((value, index) => (index < last ? value : null)),
    values.map((value, index) => (index >= last - 1 && isUnfinished ? value : null)),
  ];
}

/** Values without a neighbour, which no line shows. */
export function isolated(values: readonly (number | null | undefined)[]): number[] {
  return values.flatMap((value, index) =>
    value != null && values[index - 1] == null && values[index + 1] == null ? [index] : [],
  );
}
