import { type LineCell, type LinesFormat, linesFormat } from './lines.ts';
import type { Separator } from './quoting.ts';
import type { Table, TableColumn } from './table.ts';

/**
 * RFC 4180: commas, CRLF, a header line, quotes where needed. A missing value is an empty field,
 * and an empty text is `""`, as in Postgres and DuckDB.
 */
export const csv = createCsv('', ',', (column) => ({
  ...column,
  quoting: isText(column) ? 'csv' : 'none',
}));

/**
 * CSV for spreadsheets. Excel detects UTF-8 by the byte order mark. An apostrophe precedes text
 * that a spreadsheet would evaluate or change, so values may differ from `csv`.
 */
export function csvForExcel(options: SpreadsheetOptions = {}): LinesFormat {
  const { timezone: timeZone } = options;
  const separator = options.separator === 'semicolon' ? ';' : ',';
  const mark = options.decimal === 'comma' ? ',' : '.';
  return createCsv('\ufeff', separator, (column, { columns, currencyColumn = 'currency' }) => {
    const { name, kind } = column;
    if (isText(column)) {
      return { ...column, quoting: separator === ';' ? 'spreadsheet_semicolon' : 'spreadsheet' };
    }
    if (kind === 'integer') {
      const number = { ...column, quoting: 'spreadsheet_number' } as const;
      if (options.amounts !== 'units' || !name.endsWith(cents)) return number;
      const quotes = mark === separator ? '"' : '';
      const currencyIndex = columns.findIndex((each) => each.name === currencyColumn);
      const units = { mark, currencyIndex } as const;
      return { ...number, name: name.slice(0, -cents.length), units, quotes };
    }
    if (kind === 'instant' && timeZone !== undefined) {
      return { ...column, quoting: 'none', name: `${name} (${timeZone})`, timeZone };
    }
    return { ...column, quoting: 'none' };
  });
}

/** The end of the names of amounts (section 2.1). */
const cents = '_in_cents';

const isText = ({ kind }: TableColumn): boolean =>
  kind === 'text' || kind === 'label' || kind === 'json';

type CsvColumn = Pick<LineCell, 'quoting' | 'units' | 'timeZone'> & {
  readonly name: string;
  /** Around each value that is not missing. */
  readonly quotes?: '"' | '';
};

function createCsv(
  byteOrderMark: string,
  separator: Separator,
  describe: (column: TableColumn, table: Table) => CsvColumn,
): LinesFormat {
  return linesFormat({
    mediaType: 'text/csv',
    contentType: 'text/csv; charset=utf-8; header=present',
    extension: 'csv',
    begin: (table) => {
      const names = table.columns.map((column) => describe(column, table).name);
      return `${byteOrderMark}${names.join(separator)}\r\n`;
    },
    line: (table) => ({
      before: '',
      cells: table.columns.map((column, index) => {
        const { quoting, units, timeZone, quotes = '' } = describe(column, table);
        const between = index === 0 ? '' : separator;
        return {
          kind: column.kind,
          isWholeSeconds: column.isWholeSeconds,
          before: between + quotes,
          quoting,
          after: quotes,
          absent: between,
          ...(units && { units }),
          ...(timeZone !== undefined && { timeZone }),
        };
      }),
      after: '\r\n',
    }),
  });
}

/** The options of `csv_excel`, with the names and values of their parameters. */
export const spreadsheetOptions = {
  separator: ['comma', 'semicolon'],
  decimal: ['point', 'comma'],
  amounts: ['cents', 'units'],
} as const;

export type SpreadsheetOptions = {
  readonly [Name in keyof typeof spreadsheetOptions]?: (typeof spreadsheetOptions)[Name][number];
} & {
  /** Instants are local time of this zone; without it, UTC as in other formats. */
  readonly timezone?: string;
};
