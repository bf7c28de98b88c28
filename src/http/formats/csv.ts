import { type LinesFormat, linesFormat } from './lines.ts';
import type { Quoting } from './quoting.ts';
import type { TableColumnKind } from './table.ts';

/**
 * RFC 4180: commas, CRLF, a header line, quotes where needed. A missing value is an empty field,
 * and an empty text is `""`, as in Postgres and DuckDB.
 */
export const csv = createCsv('', 'csv');

/**
 * CSV for spreadsheets. Excel detects UTF-8 by the byte order mark. An apostrophe precedes text
 * that a spreadsheet would evaluate as a formula, so values may differ from `csv`.
 */
export const csvForExcel = createCsv('\ufeff', 'spreadsheet');

function createCsv(byteOrderMark: string, textQuoting: Quoting): LinesFormat {
  const quotingOf: Readonly<Record<TableColumnKind, Quoting>> = {
    text: textQuoting,
    label: textQuoting,
    json: textQuoting,
    integer: 'none',
    boolean: 'none',
    instant: 'none',
  };
  return linesFormat({
    mediaType: 'text/csv',
    contentType: 'text/csv; charset=utf-8; header=present',
    extension: 'csv',
    begin: ({ columns }) => `${byteOrderMark}${columns.map(({ name }) => name).join(',')}\r\n`,
    line: ({ columns }) => ({
      before: '',
      cells: columns.map(({ kind }, index) => {
        const separator = index === 0 ? '' : ',';
        return { kind, before: separator, quoting: quotingOf[kind], after: '', absent: separator };
      }),
      after: '\r\n',
    }),
  });
}
