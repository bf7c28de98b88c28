import { z } from 'zod';
import { encodeId } from '../../domain/public-id.ts';
import {
  fromWire,
  type ResponseTable,
  type Table,
  type TableBatch,
} from '../../http/formats/table.ts';
import type { Connection } from '../../postgres/connection/pool.ts';
import { readPage } from '../../postgres/lists/keyset-list.ts';
import type { KeysetList } from '../../postgres/lists/keyset-statement.ts';
import type { RecordResponse, RecordRow, ResourceRecord } from './record.ts';

/** The columns of a record, from its definition. */
export const recordTable = ({ resource, fields }: ResourceRecord): Table => ({
  before: { object: resource },
  columns: [
    { name: 'id', kind: 'text', absent: 'never' },
    ...Object.entries(fields).map(([name, { kind, schema }]) => ({
      name,
      kind,
      absent: schema instanceof z.ZodOptional ? ('left out' as const) : ('never' as const),
    })),
  ],
});

type ListResponse<Fields extends ResourceRecord['fields']> = {
  readonly data: readonly RecordResponse<Fields>[];
  readonly has_more: boolean;
};

/** The items of a list as rows. */
export const recordListTable = <Fields extends ResourceRecord['fields']>(
  record: ResourceRecord<Fields>,
): ResponseTable<ListResponse<Fields>> => ({
  ...recordTable(record),
  read: ({ data, has_more: hasMore }) => ({ rows: data, hasMore }),
});

/** Each page is a short statement, whose rows take a few milliseconds to write. */
const exportPageSize = 500;

type ExportedList = Omit<KeysetList, 'table' | 'selectList' | 'limit' | 'startingAfter'>;

/** All rows of a list, as pages along its index. One snapshot must show all pages. */
export async function* recordBatches(
  connection: Connection,
  record: ResourceRecord,
  list: ExportedList,
  { publicAppUrl }: { readonly publicAppUrl: string },
  signal: AbortSignal,
): AsyncGenerator<TableBatch> {
  const { table, selectList } = record;
  const keyset = { ...list, table, selectList, limit: exportPageSize };
  let startingAfter: KeysetList['startingAfter'];
  do {
    signal.throwIfAborted();
    const page = await readPage<RecordRow>(connection, { ...keyset, startingAfter });
    if (page === undefined) throw new Error('a page has ended with a row that does not exist');
    if (page.rows.length > 0) yield batchOfRows(record, page.rows, publicAppUrl);
    startingAfter = page.end ?? undefined;
  } while (startingAfter !== undefined);
}

/** As `serializeRecord`, but by columns, and without the text of instants. */
function batchOfRows(
  { resource, fields }: ResourceRecord,
  rows: readonly RecordRow[],
  publicAppUrl: string,
): TableBatch {
  const ids = rows.map(({ id }) => encodeId(resource, id));
  const data = Object.entries(fields).map(([name, { kind, serialize }]) =>
    rows.map((row, index) => {
      const value = row[name];
      if (value === null) return null;
      if (kind === 'instant') return value as bigint;
      const context = { publicId: ids[index] as string, publicAppUrl };
      return fromWire[kind](serialize(value as never, context) as never);
    }),
  );
  return { rowCount: rows.length, data: [ids, ...data] };
}
