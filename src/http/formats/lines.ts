import { decimalOf } from '../../domain/decimal.ts';
import { formatInstant } from '../../domain/instant.ts';
import { localTimeWriter } from '../../domain/local-time.ts';
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
  /** Cents as a decimal number with this mark. */
  readonly mark?: '.' | ',';
  /** Instants as local time of this zone. */
  readonly timeZone?: string;
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

function cellWriter(cell: LineCell): (data: ColumnData) => CellText {
  const { before, quoting, after, absent } = cell;
  const quote = quotings[quoting];
  const textOf = valueWriter(cell);
  return (data) => (row) => {
    const value = data[row] ?? null;
    return value === null ? absent : before + quote(textOf(value)) + after;
  };
}

function valueWriter({ kind, mark, timeZone }: LineCell): (value: bigint | string) => string {
  if (mark !== undefined) return (cents) => decimalOf(cents as bigint).replace('.', mark);
  if (kind !== 'instant') return String;
  const write = timeZone === undefined ? formatInstant : localTimeWriter(timeZone);
  return (instant) => write(instant as bigint);
}
