import { type LineCell, linesFormat } from './lines.ts';
import type { Table, TableColumn } from './table.ts';

/** One line for each row, with the object of the JSON response. */
export const ndjson = linesFormat({
  mediaType: 'application/x-ndjson',
  contentType: 'application/x-ndjson',
  extension: 'ndjson',
  begin: () => '',
  line: (table) => {
    const before = membersOf(table.before);
    const after = membersOf(table.after);
    return {
      before: `{${before}`,
      cells: table.columns.map((column, index) =>
        cellOf(column, index === 0 && before === '' ? '' : ','),
      ),
      after: `${after === '' ? '' : `,${after}`}}\n`,
    };
  },
});

const membersOf = (fields: Table['before']): string =>
  fields === undefined ? '' : JSON.stringify(fields).slice(1, -1);

function cellOf({ name, kind, absent }: TableColumn, separator: string): LineCell {
  const member = `${separator}${JSON.stringify(name)}:`;
  const cell = { kind, absent: absent === 'null' ? `${member}null` : '' };
  switch (kind) {
    case 'text':
    case 'label':
      return { ...cell, before: member, quoting: 'json', after: '' };
    case 'instant':
      return { ...cell, before: `${member}"`, quoting: 'none', after: '"' };
    default:
      return { ...cell, before: member, quoting: 'none', after: '' };
  }
}
