import Table, { type Cell, type HorizontalAlignment } from 'cli-table3';

export type PlainTableColumn = {
  readonly head: string;
  /** In characters. */
  readonly width: number;
  readonly align?: HorizontalAlignment;
};

const noBorders = Object.fromEntries(
  ['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left']
    .concat(['bottom-right', 'left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'])
    .map((name) => [name, '']),
);

/** A table without borders, with two spaces between columns. `…` truncates long cells. */
export function formatTable(columns: readonly PlainTableColumn[], rows: readonly Cell[][]): string {
  const table = new Table({
    head: columns.map(({ head }) => head),
    colWidths: columns.map(({ width }) => width),
    colAligns: columns.map(({ align = 'left' }) => align),
    chars: { ...noBorders, middle: '  ' },
    style: { head: [], border: [], compact: true, 'padding-left': 0, 'padding-right': 0 },
  });
  table.push(...rows.map((row) => [...row]));
  return table.toString().replaceAll(/ +$/gm, '');
}
