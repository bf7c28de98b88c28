import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { queryRows, runStatement } from '../duckdb/connection.ts';
import { cellSql, type LineCell, type LinesFormat } from '../http/formats/lines.ts';
import type { Table, TableColumn } from '../http/formats/table.ts';
import { purchaseTable } from '../resources/purchases/purchase-table.ts';
import { currencyDigits, type MatchingPurchases, projectPurchases } from './projection.ts';
import { localTimeFunction } from './sql-functions.ts';

// DuckDB opens it by path, so it must be a pipe or a file.
const toStandardOutput = raw(`to '/dev/stdout'`);

/**
 * Writes purchases as lines. DuckDB composes each line as one text: its own CSV has other
 * line ends, and its own JSON writes `null` for a missing value.
 */
export async function copyLines(
  connection: DuckDBConnection,
  purchases: MatchingPurchases,
  format: LinesFormat,
): Promise<void> {
  const { before, cells, after } = format.line(purchaseTable);
  const { columns, from } = projectPurchases(purchases, (value, { kind, required }, index) =>
    cellSql(cells[index] as LineCell, value, {
      isRequired: required,
      isId: kind === 'purchase_id' || kind === 'customer_id',
      digits: currencyDigits,
      localTime: localTimeFunction,
    }),
  );
  // COPY ends each line itself. The name of the only column is the first line.
  const line = sql`concat(${join([before, ...columns, after.replace(/\n$/, '')])})`;
  const name = format.begin(purchaseTable).replace(/\n$/, '');
  await copyAll(
    connection,
    purchases,
    sql`copy (select ${line} as ${raw(`"${name || 'line'}"`)} from ${from}) ${toStandardOutput}
      (format csv, header ${raw(String(name !== ''))}, delim '', quote '', force_quote *, escape '', nullstr '')`,
  );
}

/** Throws if not all were copied: the joins drop a purchase whose key no dictionary has. */
async function copyAll(
  connection: DuckDBConnection,
  { count }: MatchingPurchases,
  statement: Sql,
): Promise<void> {
  const [copied] = await queryRows(connection, statement);
  if (copied?.[0] === count) return;
  throw new Error(`the file is damaged: of ${count} purchases ${copied?.[0]} were written`);
}

/** The texts of a row group are kept in memory, in each thread. Most row groups are smaller. */
const rowGroup = '64MiB';
/** For rows that may be long: besides them, the reader of CSV keeps buffers. */
const smallRowGroup = '8MiB';
const asParquet = (rowGroupBytes: string): Sql =>
  raw(`(format parquet, row_group_size_bytes '${rowGroupBytes}')`);

export async function copyParquet(
  connection: DuckDBConnection,
  purchases: MatchingPurchases,
): Promise<void> {
  const { columns, from } = projectPurchases(purchases, (value, { kind }) =>
    // A cast to timestamptz goes through the calendar, and takes twenty times as long.
    kind === 'instant' ? sql`make_timestamptz(epoch_us(${value}))` : value,
  );
  const named = columns.map((value, index) => {
    const { name } = purchaseTable.columns[index] as TableColumn;
    return sql`${value} as ${raw(name)}`;
  });
  await copyAll(
    connection,
    purchases,
    sql`copy (select ${join(named)} from ${from}) ${toStandardOutput} ${asParquet(rowGroup)}`,
  );
}

const csvTypes: Readonly<Record<TableColumn['kind'], string>> = {
  text: 'varchar',
  label: 'varchar',
  integer: 'bigint',
  boolean: 'boolean',
  instant: 'timestamptz',
  json: 'varchar',
};

/** Writes a CSV file with these columns as Parquet. It may be a pipe. */
export async function copyCsvAsParquet(
  connection: DuckDBConnection,
  path: string,
  { columns: csvColumns }: Table,
): Promise<void> {
  const columns = csvColumns.map(({ name, kind }) => `${name}: '${csvTypes[kind]}'`);
  await runStatement(
    connection,
    sql`copy (
      select * from read_csv(${path}, columns = {${raw(columns.join(', '))}},
        auto_detect = false, header = true, delim = ',', quote = '"', escape = '"', new_line = '\\r\\n',
        nullstr = '', allow_quoted_nulls = false, parallel = false, max_line_size = 8388608, buffer_size = 16777216)
    ) ${toStandardOutput} ${asParquet(smallRowGroup)}`,
  );
}
