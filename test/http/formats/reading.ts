import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance, DuckDBTimestampTZValue } from '@duckdb/node-api';
import { type Data, DataType, tableFromIPC, type Vector } from 'apache-arrow';
import { formatInstant } from '../../../src/domain/instant.ts';
import type { TableColumn } from '../../../src/http/formats/table.ts';
import { temporaryDirectory } from '../../support/temporary-directory.ts';

/** A row as text: numbers as digits, instants as JSON writes them. */
export type ReadRow = readonly (string | null)[];

/** Reads CSV and Parquet with DuckDB. In CSV, an unquoted empty text is null. */
export async function fileReader() {
  const folder = await temporaryDirectory();
  const instance = await DuckDBInstance.create(':memory:');
  const connection: DuckDBConnection = await instance.connect();
  let files = 0;
  const save = async (content: Buffer): Promise<string> => {
    files += 1;
    const path = join(folder.path, String(files));
    await writeFile(path, content);
    return path;
  };
  return {
    /** The types by column, and the rows as text. */
    async readParquet(file: Buffer): Promise<{ types: Record<string, string>; rows: ReadRow[] }> {
      const path = await save(file);
      const reader = await connection.runAndReadAll('select * from read_parquet($path)', { path });
      return {
        types: Object.fromEntries(
          reader.columnNames().map((name, index) => [name, String(reader.columnType(index))]),
        ),
        rows: reader.getRows().map((row) =>
          row.map((value) => {
            if (value === null) return null;
            const isInstant = value instanceof DuckDBTimestampTZValue;
            return isInstant ? formatInstant(value.micros) : String(value);
          }),
        ),
      };
    },
    async readCsv(csv: Buffer): Promise<{ names: string[]; rows: ReadRow[] }> {
      const path = await save(csv);
      const reader = await connection.runAndReadAll(
        `select * from read_csv($path, header = true, all_varchar = true, auto_detect = false,
           delim = ',', quote = '"', escape = '"', new_line = '\\r\\n', nullstr = '',
           allow_quoted_nulls = false, columns = ${columnsOf(csv)})`,
        { path },
      );
      return { names: reader.columnNames(), rows: reader.getRows() as ReadRow[] };
    },
    async close() {
      connection.closeSync();
      instance.closeSync();
      await folder.remove();
    },
  };
}

function columnsOf(csv: Buffer): string {
  const line = csv.toString('utf8').replace('\ufeff', '').split('\r\n', 1)[0] ?? '';
  return `{${line.split(',').map((name) => `'${name}': 'varchar'`)}}`;
}

/** Reads an Arrow stream with the library's own reader. */
export function readArrow(bytes: Uint8Array): { types: Record<string, string>; rows: ReadRow[] } {
  const table = tableFromIPC(bytes);
  const columns = table.schema.fields.map(({ name }) => valuesOf(table.getChild(name) as Vector));
  return {
    types: Object.fromEntries(table.schema.fields.map(({ name, type }) => [name, String(type)])),
    rows: Array.from({ length: table.numRows }, (_, row) =>
      columns.map((values) => values[row] ?? null),
    ),
  };
}

/**
 * Reads instants and texts from their buffers: the library rounds instants to milliseconds, and
 * removes a byte order mark from texts.
 */
function valuesOf(vector: Vector): (string | null)[] {
  const readerOf = (data: Data): ((row: number) => string) => {
    if (DataType.isTimestamp(data.type)) return (row) => formatInstant(data.values[row]);
    if (DataType.isUtf8(data.type)) {
      const { values, valueOffsets: ends } = data;
      return (row) => Buffer.from(values.subarray(ends[row], ends[row + 1])).toString();
    }
    if (DataType.isDictionary(data.type)) {
      const texts = valuesOf(data.dictionary as Vector);
      return (row) => String(texts[data.values[row]]);
    }
    if (DataType.isBool(data.type)) {
      return (row) => String(((data.values[row >> 3] >> (row & 7)) & 1) === 1);
    }
    return (row) => String(data.values[row]);
  };
  return vector.data.flatMap((data) => {
    const read = readerOf(data);
    return Array.from({ length: data.length }, (_, row) => (data.getValid(row) ? read(row) : null));
  });
}

/** The rows of JSON objects. Objects are text, because doubles would lose digits. */
export function rowsOfJson(columns: readonly TableColumn[], objects: readonly string[]): ReadRow[] {
  return objects.map((object) => columns.map(({ name }) => memberOf(object, name)));
}

/** Parses an object with its numbers as text, because doubles would lose digits. */
export const exactly = (object: string): Record<string, unknown> =>
  JSON.parse(
    object.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (token) =>
      token.startsWith('"') ? token : `"\\u0001${token}"`,
    ),
  );

/** A member of an object as text, with all digits of numbers. */
function memberOf(object: string, name: string): string | null {
  const value = exactly(object)[name];
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') return value.replace('\u0001', '');
  return JSON.stringify(value).replaceAll(/"\\u0001([^"]*)"/g, '$1');
}

/** The texts of the objects in an array of a JSON object. */
export function objectsIn(json: string, member: string): string[] {
  const start = json.indexOf(`"${member}":[`) + member.length + 4;
  const objects: string[] = [];
  let depth = 0;
  let from = start;
  for (const { 0: token, index } of json.slice(start).matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (token === '{' || token === '[') {
      if (depth === 0) from = start + index;
      depth += 1;
    } else if (token === '}' || token === ']') {
      depth -= 1;
      if (depth < 0) break;
      if (depth === 0) objects.push(json.slice(from, start + index + 1));
    }
  }
  return objects;
}
