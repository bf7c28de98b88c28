import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns } from '../domain/purchase.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { queryRows, runStatement } from '../engines/duckdb/connection.ts';
import type { LineCell, LinesFormat } from '../http/formats/lines.ts';
import { patterns, type Quoting } from '../http/formats/quoting.ts';
import type { TableColumn } from '../http/formats/table.ts';
import { purchaseTable } from '../resources/purchase-table.ts';
import { type ShownColumns, showColumns } from './shown-columns.ts';

// DuckDB opens it anew, so it must be a pipe or a file.
const standardOutput = raw(`'/dev/stdout'`);

/**
 * Writes the lines of an attached file's purchases, each composed by DuckDB. `begin` is
 * called before the first of them, once they are known to be readable.
 */
export async function copyLines(
  connection: DuckDBConnection,
  catalog: string,
  filters: PurchaseFilters,
  format: LinesFormat,
  begin: () => void,
): Promise<void> {
  const { before, cells, after } = format.line(purchaseTable);
  const shown = await showColumns(connection, catalog, filters, (value, index) =>
    presentCell(cells[index] as LineCell, purchaseColumns[index] as PurchaseColumn, value),
  );
  // COPY ends each line itself.
  const ending = after.replace(/\n$/, '');
  const line = sql`concat(${before}, ${join(shown.columns, ', ')}, ${ending})`;
  begin();
  await copyAll(
    connection,
    shown,
    sql`copy (select ${line} from ${shown.from}) to ${standardOutput}
      (format csv, header false, delim '', quote '', escape '', nullstr '')`,
  );
}

/** Throws where not all purchases were copied. */
async function copyAll(
  connection: DuckDBConnection,
  { purchases }: ShownColumns,
  statement: Sql,
): Promise<void> {
  const [copied] = await queryRows(connection, statement);
  if (copied?.[0] === purchases) return;
  throw new Error(`the file is damaged: of ${purchases} purchases ${copied?.[0]} were written`);
}

/** A column's part of the line; where it is null, `concat` passes it over. */
function presentCell(
  { before, quoting, after, absent }: LineCell,
  { kind, required }: PurchaseColumn,
  value: Sql,
): Sql {
  // Letters and digits: nothing in them is ever escaped.
  const isPlain = kind === 'purchase_id' || kind === 'customer_id';
  const text = kind === 'instant' ? sql`strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')` : value;
  const quoted = sqlQuotings[isPlain && quoting !== 'json' ? 'none' : quoting](text);
  if (required) return sql`concat(${before}, ${quoted}, ${after})`;
  if (absent === before && after === '') return sql`concat(${before}, ${quoted})`;
  return sql`coalesce(${before} || ${quoted} || ${after}, ${absent})`;
}

const matches = (text: Sql, pattern: string): Sql =>
  sql`regexp_matches(${text}, ${raw(`'${pattern}'`)})`;

/** As `quotings`, in SQL. */
const sqlQuotings: Readonly<Record<Quoting, (text: Sql) => Sql>> = {
  none: (text) => text,
  json: (text) => sql`to_json(${text})::varchar`,
  csv: (text) =>
    sql`case when ${text} = '' or ${matches(text, patterns.needsQuotes)}
      then '"' || replace(${text}, '"', '""') || '"' else ${text} end`,
  spreadsheet: (text) =>
    sqlQuotings.csv(
      sql`case when ${matches(text, patterns.isFormula)} then '''' || ${text} else ${text} end`,
    ),
};

const columnTypes: Readonly<Record<TableColumn['kind'], string>> = {
  text: 'varchar',
  label: 'varchar',
  integer: 'bigint',
  instant: 'timestamptz',
  json: 'varchar',
};
const typed = (value: Sql, { kind }: TableColumn): Sql => sql`${value}::${raw(columnTypes[kind])}`;
const named = (value: Sql, { name }: TableColumn): Sql => sql`${value} as ${raw(name)}`;
const toParquet = sql`to ${standardOutput} (format parquet)`;

/** Writes an attached file's purchases as Parquet. */
export async function copyParquet(
  connection: DuckDBConnection,
  catalog: string,
  filters: PurchaseFilters,
): Promise<void> {
  const { columns } = purchaseTable;
  const shown = await showColumns(connection, catalog, filters, (value, index) =>
    typed(value, columns[index] as TableColumn),
  );
  const selected = shown.columns.map((value, index) => named(value, columns[index] as TableColumn));
  const statement = sql`copy (select ${join(selected, ', ')} from ${shown.from}) ${toParquet}`;
  await copyAll(connection, shown, statement);
}

/** Writes a CSV file of `purchaseTable` as Parquet. It may be a pipe. */
export async function copyCsvAsParquet(connection: DuckDBConnection, path: string): Promise<void> {
  const columns = purchaseTable.columns.map(({ name, kind }) => `${name}: '${columnTypes[kind]}'`);
  await runStatement(
    connection,
    sql`copy (
      select * from read_csv(${path}, columns = {${raw(columns.join(', '))}},
        auto_detect = false, header = true, delim = ',', quote = '"', escape = '"', new_line = '\\r\\n',
        nullstr = '', allow_quoted_nulls = false, parallel = false, max_line_size = 8388608, buffer_size = 33554432)
    ) ${toParquet}`,
  );
}
