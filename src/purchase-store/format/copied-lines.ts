import {
  maxPurchaseLineBytes,
  type PurchaseColumn,
  type PurchaseColumnKind,
} from '../../domain/purchase.ts';
import { quotePath } from '../../duckdb/connection.ts';

/** DuckDB's types of the fields of a log's records, whose instants are microseconds. */
export const recordTypes: Readonly<Record<PurchaseColumnKind, string>> = {
  purchase_id: 'bigint',
  customer_id: 'bigint',
  cents: 'bigint',
  instant: 'bigint',
  text: 'varchar',
  label: 'varchar',
  coupons: 'varchar',
};

/** The characters that Postgres escapes in the text format of COPY, by the letters after the backslash. */
export const escapes: Readonly<Record<string, string>> = {
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
  v: '\v',
};

/** A table of SQL with the lines of a file in the text format of COPY. Texts keep their escapes. */
export function copiedLines(
  path: string,
  /** Types by name, in the order of the fields. */
  fields: readonly (readonly [name: string, type: string])[],
  /** Further options of `read_csv`. */
  options: Readonly<Record<string, boolean | number>> = {},
): string {
  const columns = fields.map(([name, type]) => `'${name}': '${type}'`);
  const further = Object.entries(options).map(([name, value]) => `, ${name} = ${value}`);
  // Two threads took a half more processor time, which Postgres needs during a load.
  return `
    read_csv(${quotePath(path)}, columns = {${columns.join(', ')}},
      auto_detect = false, header = false, delim = '\t', quote = '', escape = '', new_line = '\\n',
      nullstr = '\\N', parallel = false, max_line_size = ${maxPurchaseLineBytes},
      buffer_size = ${2 * maxPurchaseLineBytes}${further.join('')})`;
}

/** A column of `copiedLines`: texts are without escapes. Splitting texts at backslashes took gigabytes. */
export function copiedValue({ name, kind }: PurchaseColumn): string {
  if (recordTypes[kind] !== 'varchar') return name;
  const unmarked = `replace(${name}, '\\\\', chr(0))`;
  const rest = Object.entries(escapes).reduce(
    (text, [letter, character]) =>
      `replace(${text}, '\\${letter}', chr(${character.charCodeAt(0)}))`,
    unmarked,
  );
  return `case when contains(${name}, '\\') then replace(${rest}, chr(0), '\\') else ${name} end as ${name}`;
}
