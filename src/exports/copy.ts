import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import { type PurchaseColumn, purchaseColumns, purchaseLabels } from '../domain/purchase.ts';
import type { PurchaseFilters } from '../domain/purchase-query.ts';
import { queryRows, runStatement } from '../duckdb/connection.ts';
import type { LineCell, LinesFormat } from '../http/formats/lines.ts';
import { formulaPattern, type Quoting, quotedCharacters } from '../http/formats/quoting.ts';
import type { TableColumn } from '../http/formats/table.ts';
import { labelTable } from '../purchase-store/layout.ts';
import { purchaseTable } from '../resources/purchase-table.ts';
import { forEachPart } from './parts.ts';
import { createProjection, type Projection, whole } from './projection.ts';

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
  const present = (value: Sql, index: number) =>
    presentCell(cells[index] as LineCell, purchaseColumns[index] as PurchaseColumn, value);
  // COPY ends each line itself.
  const ending = after.replace(/\n$/, '');
  let isBegun = false;
  await forEachPart(
    connection,
    catalog,
    filters,
    (part) => createProjection(connection, catalog, part, present),
    async (shown) => {
      const line = whole([sql`${before}`, ...shown.columns.flat(), sql`${ending}`]);
      if (!isBegun) begin();
      isBegun = true;
      await copyAll(
        connection,
        shown,
        sql`copy (select ${line} from ${shown.from}) to ${standardOutput}
          (format csv, header false, delim '', quote '', force_quote *, escape '', nullstr '')`,
      );
    },
  );
}

/** Throws where not all purchases were copied. */
async function copyAll(
  connection: DuckDBConnection,
  { purchases }: Projection,
  statement: Sql,
): Promise<void> {
  const [copied] = await queryRows(connection, statement);
  if (copied?.[0] === purchases) return;
  throw new Error(`the file is damaged: of ${purchases} purchases ${copied?.[0]} were written`);
}

/** A column's part of the line, in pieces; where one is null it is nothing. */
function presentCell(
  { before, quoting, after, absent }: LineCell,
  { kind, required }: PurchaseColumn,
  value: Sql,
): Sql[] {
  // Letters and digits: nothing in them is ever escaped.
  const isPlain = kind === 'purchase_id' || kind === 'customer_id';
  const text = kind === 'instant' ? sql`strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')` : value;
  const quoted = sqlQuotings[isPlain && quoting !== 'json' ? 'none' : quoting](text);
  const piece = (present: string, otherwise: string): Sql[] => {
    if (required || present === otherwise) return present === '' ? [] : [sql`${present}`];
    return [sql`case when ${value} is null then ${otherwise} else ${present} end`];
  };
  return [...piece(before, absent), quoted, ...piece(after, '')];
}

/** A regular expression takes twice as long to find none of them. */
const containsAny = (text: Sql, characters: readonly string[]): Sql =>
  join(
    characters.map((character) => sql`contains(${text}, ${character})`),
    ' or ',
  );

/** As `quotings`, in SQL. */
const sqlQuotings: Readonly<Record<Quoting, (text: Sql) => Sql>> = {
  none: (text) => text,
  json: (text) => sql`to_json(${text})::varchar`,
  csv: (text) =>
    sql`case when ${text} = '' or ${containsAny(text, quotedCharacters)}
      then '"' || replace(${text}, '"', '""') || '"' else ${text} end`,
  spreadsheet: (text) =>
    sql`case when regexp_matches(${text}, ${raw(`'${formulaPattern}'`)})
      then ${sqlQuotings.csv(sql`'''' || ${text}`)} else ${sqlQuotings.csv(text)} end`,
};

const columnTypes: Readonly<Record<TableColumn['kind'], string>> = {
  text: 'varchar',
  label: 'varchar',
  integer: 'bigint',
  instant: 'timestamptz',
  json: 'varchar',
};
const named = (value: Sql, { name }: TableColumn): Sql => sql`${value} as ${raw(name)}`;
/** The texts of a row group wait in memory, in each thread. Usual purchases do not take so much. */
const rowGroup = '64MiB';
const smallRowGroup = '8MiB';
const toParquet = (rowGroupBytes: string): Sql =>
  sql`to ${standardOutput} (format parquet, row_group_size_bytes ${raw(`'${rowGroupBytes}'`)})`;

/** Writes an attached file's purchases as Parquet. */
export async function copyParquet(
  connection: DuckDBConnection,
  catalog: string,
  filters: PurchaseFilters,
): Promise<void> {
  const { columns } = purchaseTable;
  const enumerated = await createEnumerations(connection, catalog);
  const present = (value: Sql, index: number) => {
    const { kind, name } = columns[index] as TableColumn;
    // A cast to timestamptz goes through the calendar, and takes twenty times as long.
    if (kind === 'instant') return [sql`make_timestamptz(epoch_us(${value}))`];
    return [sql`${value}::${raw(enumerated.get(name) ?? columnTypes[kind])}`];
  };
  let isCollected = false;
  await forEachPart(
    connection,
    catalog,
    filters,
    (part) => createProjection(connection, catalog, part, present),
    async (shown, { isPart }) => {
      const selected = shown.columns.map((pieces, index) =>
        named(whole(pieces), columns[index] as TableColumn),
      );
      const rows = sql`select ${join(selected, ', ')} from ${shown.from}`;
      if (!isPart) return copyAll(connection, shown, sql`copy (${rows}) ${toParquet(rowGroup)}`);
      // Only one statement writes a file. DuckDB keeps the parts on disk until then.
      const into = isCollected ? sql`insert into collected` : sql`create temp table collected as`;
      await copyAll(connection, shown, sql`${into} ${rows}`);
      isCollected = true;
    },
  );
  if (isCollected) {
    await runStatement(connection, sql`copy collected ${toParquet(smallRowGroup)}`);
  }
}

/** Each row group of a file would hold all the values of an enumeration. */
const mostEnumerated = 1_000n;

/**
 * Creates a type for each label of few values, and returns their names. In Parquet an
 * enumeration is the same as text in a dictionary; of text DuckDB hashes each row's to make one.
 */
async function createEnumerations(
  connection: DuckDBConnection,
  catalog: string,
): Promise<ReadonlyMap<string, string>> {
  const types = new Map<string, string>();
  for (const label of purchaseLabels) {
    const table = raw(`${catalog}.${labelTable(label)}`);
    const [size] = await queryRows(connection, sql`select count(*) from ${table}`);
    if ((size?.[0] as bigint) > mostEnumerated) continue;
    const type = `enumerated_${label}`;
    await runStatement(
      connection,
      sql`create type ${raw(type)} as enum (select distinct value from ${table})`,
    );
    types.set(label, type);
  }
  return types;
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
    ) ${toParquet(rowGroup)}`,
  );
}
