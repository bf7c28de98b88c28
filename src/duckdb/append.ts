import {
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBType,
  type DuckDBValue,
} from '@duckdb/node-api';

/** The rows of one vector. */
const chunkRows = 2048;

/** Rows by column. */
type Columns = readonly (readonly DuckDBValue[])[];
type Target = { readonly catalog: string; readonly table: string };

/** Appends rows to a table. An INSERT takes three milliseconds to plan. */
export async function appendColumns(
  connection: DuckDBConnection,
  target: Target,
  types: readonly DuckDBType[],
  columns: Columns,
): Promise<void> {
  const rows = columns[0]?.length ?? 0;
  if (rows > 0) await appendChunks(connection, target, types, chunksOf(columns, rows));
}

function* chunksOf(columns: Columns, rows: number): Generator<Columns> {
  for (let at = 0; at < rows; at += chunkRows) {
    yield columns.map((column) => column.slice(at, at + chunkRows));
  }
}

/** Appends chunks of rows to a table. None may have more rows than a vector. */
export async function appendChunks(
  connection: DuckDBConnection,
  { catalog, table }: Target,
  types: readonly DuckDBType[],
  chunks: Iterable<Columns>,
): Promise<void> {
  const appender = await connection.createAppender(table, 'main', catalog);
  try {
    for (const columns of chunks) {
      const chunk = DuckDBDataChunk.create(types, columns[0]?.length);
      chunk.setColumns(columns);
      appender.appendDataChunk(chunk);
    }
  } finally {
    appender.closeSync();
  }
}
