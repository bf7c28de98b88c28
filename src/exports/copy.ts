import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { join, raw, type Sql } from 'sql-template-tag';
import type { PurchaseColumn } from '../domain/purchase.ts';
import { changedTextPattern, roundedNumberPattern } from '../domain/spreadsheet-text.ts';
import { queryRows, runStatement } from '../duckdb/connection.ts';
import type { LineCell, LinesFormat } from '../http/formats/lines.ts';
import { type Quoting, quotedCharacters, type Separator } from '../http/formats/quoting.ts';
import type { Table, TableColumn } from '../http/formats/table.ts';
import { purchaseTable } from '../resources/purchases/purchase-table.ts';
import { localTimeFunction } from './functions.ts';
import { currencyDigits, type MatchingPurchases, projectPurchases } from './projection.ts';

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
  const { columns, from } = projectPurchases(purchases, (value, column, index) =>
    lineCell(value, column, cells[index] as LineCell),
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

/** A part of a line. `concat` leaves out what is null. */
function lineCell(value: Sql, { kind, required }: PurchaseColumn, cell: LineCell): Sql {
  const { before, quoting, after, absent } = cell;
  // Letters and digits need no quotes.
  const isId = kind === 'purchase_id' || kind === 'customer_id';
  const quoted = sqlQuotings[isId && quoting !== 'json' ? 'none' : quoting](cellText(value, cell));
  const around = (present: string, otherwise: string): Sql =>
    required || present === otherwise
      ? sql`${present}`
      : sql`case when ${value} is null then ${otherwise} else ${present} end`;
  return sql`concat(${around(before, absent)}, ${quoted}, ${around(after, '')})`;
}

/** As `valueWriter` of lines.ts, in SQL. */
function cellText(value: Sql, { kind, units, timeZone }: LineCell): Sql {
  if (units !== undefined) {
    // Exact: a product of decimals is a decimal, but their quotient is a double.
    const text = sql`case ${currencyDigits}
      when 0 then ${value}::varchar
      when 3 then (${value}::decimal(19, 0) * 0.001::decimal(4, 3))::varchar
      when 4 then (${value}::decimal(19, 0) * 0.0001::decimal(5, 4))::varchar
      else (${value}::decimal(19, 0) * 0.01::decimal(3, 2))::varchar end`;
    return sql`replace(${text}, '.', ${units.mark})`;
  }
  if (kind !== 'instant') return value;
  if (timeZone !== undefined) return sql`${raw(localTimeFunction)}(epoch_us(${value}))`;
  return sql`strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
}

/** A regular expression takes twice as long to find none of them. */
const containsAny = (text: Sql, characters: readonly string[]): Sql =>
  join(
    characters.map((character) => sql`contains(${text}, ${character})`),
    ' or ',
  );

const quote = (text: Sql, separator: Separator): Sql =>
  sql`case when ${text} = '' or ${containsAny(text, quotedCharacters[separator])}
    then '"' || replace(${text}, '"', '""') || '"' else ${text} end`;

const quoteForSpreadsheet = (text: Sql, separator: Separator): Sql =>
  sql`case when regexp_matches(${text}, ${raw(`'${changedTextPattern}'`)}, 'i')
    then ${quote(sql`'''' || ${text}`, separator)} else ${quote(text, separator)} end`;

/** As `quotings`, in SQL. */
const sqlQuotings: Readonly<Record<Quoting, (text: Sql) => Sql>> = {
  none: (text) => text,
  json: (text) => sql`to_json(${text})::varchar`,
  csv: (text) => quote(text, ','),
  spreadsheet: (text) => quoteForSpreadsheet(text, ','),
  spreadsheet_semicolon: (text) => quoteForSpreadsheet(text, ';'),
  spreadsheet_number: (text) =>
    sql`case when regexp_matches(${text}::varchar, ${raw(`'${roundedNumberPattern}'`)})
      then '''' || ${text}::varchar else ${text}::varchar end`,
};

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
