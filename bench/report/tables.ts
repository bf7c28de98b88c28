import Table from 'cli-table3';
import type { Summary } from '../measure/statistics.ts';

/** A table whose first column is text and whose other columns are figures. */
export type FigureTable = {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
};

/** A table with a row for each item. Each column has a heading and a cell of an item. */
export function tableOf<Item>(
  items: readonly Item[],
  columns: Readonly<Record<string, (item: Item) => string>>,
): FigureTable {
  const cells = Object.values(columns);
  return { head: Object.keys(columns), rows: items.map((item) => cells.map((cell) => cell(item))) };
}

/** The table as a terminal shows it. */
export function renderTable({ head, rows }: FigureTable): string {
  const table = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

/** Median, with the quartiles in parentheses. */
export function spread({ median, lowerQuartile, upperQuartile }: Summary, digits = 1): string {
  const [middle, lower, upper] = [median, lowerQuartile, upperQuartile].map((value) =>
    decimal(value, digits),
  );
  return `${middle} (${lower}–${upper})`;
}

export function decimal(value: number, digits = 1): string {
  if (!Number.isFinite(value)) return '–';
  return value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

export const percent = (share: number): string =>
  Number.isFinite(share) ? `${decimal(share * 100)} %` : '–';

export const mebibytes = (bytes: number): string => `${decimal(bytes / 2 ** 20)} MiB`;

/** The number of warnings and errors that the measured processes logged, with examples. */
export function describeWarnings(lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  return [`Logged warnings and errors: ${lines.length}, such as`, ...lines.slice(0, 3)];
}
