import { formatInstant } from '../../domain/instant.ts';
import type { Format } from './format.ts';
import { type Quoting, quotings } from './quoting.ts';
import type { ColumnData, Table, TableColumnKind } from './table.ts';

/** The parts of a row's line of text. */
type Line = {
  readonly before: string;
  readonly cells: readonly LineCell[];
  readonly after: string;
};

/** A cell is `before`, the quoted text and `after`. A cell without a value is `absent`. */
export type LineCell = {
  readonly kind: TableColumnKind;
  readonly before: string;
  readonly quoting: Quoting;
  readonly after: string;
  readonly absent: string;
};

export type LinesFormat = Format & {
  /** The text before the first line. */
  begin(table: Table): string;
  line(table: Table): Line;
};

export function linesFormat(format: Omit<LinesFormat, 'writer'>): LinesFormat {
  return {
    ...format,
    writer: (table) => {
      const { before, cells, after } = format.line(table);
      const writers = cells.map(cellWriter);
      return {
        begin: () => Buffer.from(format.begin(table)),
        write: ({ rowCount, data }) => {
          const cellTexts: CellText[] = writers.map((write, index) =>
            write(data[index] as ColumnData),
          );
          let text = '';
          for (let row = 0; row < rowCount; row += 1) {
            text += before;
            for (const cellText of cellTexts) text += cellText(row);
            text += after;
          }
          return Buffer.from(text);
        },
        end: () => new Uint8Array(0),
      };
    },
  };
}

type CellText = (row: number) => string;

function cellWriter({
  kind,
  before,
  quoting,
  after,
  absent,
}: LineCell): (data: ColumnData) => CellText {
  const quote = quotings[quoting];
  return (data) => (row) => {
    const value = data[row] ?? null;
    if (value === null) return absent;
    const text = kind === 'instant' ? formatInstant(value as bigint) : String(value);
    return before + quote(text) + after;
  };
}
