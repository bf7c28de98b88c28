import { type CellStyle, cellsOf } from './cells.ts';
import { type Format, nothing } from './format.ts';
import type { Table, TableColumn } from './table.ts';

/** A line for each row: the very object that JSON shows. */
export const ndjson: Format = {
  mediaType: 'application/x-ndjson',
  contentType: 'application/x-ndjson',
  extension: 'ndjson',
  writer: (table) => {
    const before = membersOf(table.before);
    const after = membersOf(table.after);
    const styles = table.columns.map((column, index) =>
      styleOf(column, index === 0 && before === '' ? '' : ','),
    );
    const tail = `${after === '' ? '' : `,${after}`}}\n`;
    return {
      begin: () => nothing,
      write: ({ rowCount, data }) => {
        const cells = styles.map(({ kind, style }, index) =>
          cellsOf(kind, style, data[index] ?? []),
        );
        let text = '';
        for (let row = 0; row < rowCount; row += 1) {
          text += `{${before}`;
          for (const cell of cells) text += cell(row);
          text += tail;
        }
        return Buffer.from(text);
      },
      end: () => nothing,
    };
  },
};

const membersOf = (fields: Table['before']): string =>
  fields === undefined ? '' : JSON.stringify(fields).slice(1, -1);

function styleOf({ name, kind, absent }: TableColumn, separator: string) {
  const member = `${separator}${JSON.stringify(name)}:`;
  const quoted = (text: string) => member + JSON.stringify(text);
  const asItIs = (text: string) => member + text;
  const instant = (text: string) => `${member}"${text}"`;
  const style: CellStyle = {
    absent: absent === 'null' ? `${member}null` : '',
    write: { text: quoted, label: quoted, integer: asItIs, json: asItIs, instant },
  };
  return { kind, style };
}
