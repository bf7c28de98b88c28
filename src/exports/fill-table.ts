import type { DuckDBConnection } from '@duckdb/node-api';

export type Row = readonly (bigint | string)[];

/** Creates a temporary table of `columns`, each its name and type, or one anew, and fills it. */
export async function fillTable(
  connection: DuckDBConnection,
  name: string,
  columns: readonly string[],
  batches: AsyncIterable<readonly Row[]> | Iterable<readonly Row[]>,
): Promise<void> {
  const notNull = columns.map((column) => `${column} not null`);
  await connection.run(`create or replace temp table ${name} (${notNull.join(', ')})`);
  const appender = await connection.createAppender(name, 'main', 'temp');
  for await (const rows of batches) {
    for (const row of rows) {
      for (const value of row) {
        if (typeof value === 'bigint') appender.appendBigInt(value);
        else appender.appendVarchar(value);
      }
      appender.endRow();
    }
  }
  appender.closeSync();
}
