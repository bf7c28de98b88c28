import { type CellStyle, cellsOf } from './cells.ts';
import { type Format, nothing } from './format.ts';

/**
 * RFC 4180: commas, CRLF, a line of names, quotes where they are needed. No value is
 * nothing at all; a text without characters is `""`, as Postgres and DuckDB have it.
 */
export const csv = createCsv('', (text) => text);

/**
 * For opening in a spreadsheet: begins with the byte order mark by which Excel knows
 * UTF-8, and text that a spreadsheet would take for a formula has an apostrophe before
 * it. That changes such text, so it is not what `csv` does.
 */
export const csvForExcel = createCsv('\ufeff', (text) =>
  /^[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]/.test(text) ? `'${text}` : text,
);

const needsQuotes = /[",\r\n]/;
const quote = (text: string): string =>
  text === '' || needsQuotes.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

function createCsv(mark: string, guard: (text: string) => string): Format {
  const asText = (text: string) => quote(guard(text));
  const asItIs = (text: string) => text;
  const style: CellStyle = {
    absent: '',
    write: { text: asText, label: asText, json: asText, integer: asItIs, instant: asItIs },
  };
  return {
    mediaType: 'text/csv',
    contentType: 'text/csv; charset=utf-8; header=present',
    extension: 'csv',
    writer: ({ columns }) => ({
      begin: () => Buffer.from(`${mark}${columns.map(({ name }) => name).join(',')}\r\n`),
      write: ({ rowCount, data }) => {
        const cells = columns.map(({ kind }, index) => cellsOf(kind, style, data[index] ?? []));
        let text = '';
        for (let row = 0; row < rowCount; row += 1) {
          let separator = '';
          for (const cell of cells) {
            text += separator + cell(row);
            separator = ',';
          }
          text += '\r\n';
        }
        return Buffer.from(text);
      },
      end: () => nothing,
    }),
  };
}
