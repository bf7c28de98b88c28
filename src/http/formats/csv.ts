import { type LinesFormat, linesFormat } from './lines.ts';
import type { Quoting } from './quoting.ts';
import type { TableColumnKind } from './table.ts';

/**
 * RFC 4180: commas, CRLF, a line of names, quotes where they are needed. No value is
 * nothing at all; a text without characters is `""`, as Postgres and DuckDB have it.
 */
export const csv = createCsv('', 'csv');

/**
 * For opening in a spreadsheet: begins with the byte order mark by which Excel knows
 * UTF-8, and text that a spreadsheet would take for a formula has an apostrophe before
 * it. That changes such text, so it is not what `csv` does.
 */
export const csvForExcel = createCsv('\ufeff', 'spreadsheet');

function createCsv(mark: string, ofText: Quoting): LinesFormat {
  const quotingOf: Readonly<Record<TableColumnKind, Quoting>> = {
    text: ofText,
    label: ofText,
    json: ofText,
    integer: 'none',
    instant: 'none',
  };
  return linesFormat({
    mediaType: 'text/csv',
    contentType: 'text/csv; charset=utf-8; header=present',
    extension: 'csv',
    begin: ({ columns }) => `${mark}${columns.map(({ name }) => name).join(',')}\r\n`,
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
