import Table from 'cli-table3';
import type { Summary } from '../measure/statistics.ts';

/** A table whose first column is text and whose other columns are figures. */
export type FigureTable = {
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
};

/** The table as a terminal shows it. */
export function figureTable(head: FigureTable['head'], rows: FigureTable['rows']): string {
  const table = new Table({
    head: [...head],
    style: { head: [], border: [], compact: true },
    colAligns: head.map((_, index) => (index === 0 ? 'left' : 'right')),
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

/** Median, and between which values half of the measurements lay. */
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

/** What the measured processes complained about, and how often; nothing where they did not. */
export function complaintsOf(lines: readonly string[]): string[] {
  if (lines.length === 0) return [];
  return [`Logged warnings and errors: ${lines.length}, such as`, ...lines.slice(0, 3)];
}

const levels = '▁▂▃▄▅▆▇█';

/** A curve in one line, from the least value (▁) to the greatest (█). */
export function sparkline(values: readonly number[], width = 60): string {
  const points = Math.min(width, values.length);
  const least = Math.min(...values);
  const range = Math.max(...values) - least || 1;
  return Array.from({ length: points }, (_, point) => {
    const value = values[Math.floor((point * values.length) / points)] ?? least;
    return levels[Math.round(((value - least) / range) * (levels.length - 1))];
  }).join('');
}
