import { createHash } from 'node:crypto';
import pg from 'pg';
import type { MappedView, MappingSource } from './mapping-definition.ts';

const { escapeLiteral } = pg;

type Key = Pick<MappingSource, 'view' | 'key'>;

/** A function of a source table. */
export type SourceFunction = {
  readonly name: string;
  /** Types of its arguments. */
  readonly parameters: string;
  readonly body: string;
  readonly returns: string;
  /** Settings during a call, by name. */
  readonly settings: Readonly<Record<string, string>>;
};

/** With them, the text of a value does not depend on the session. Those of each connection (session.ts). */
const textSettings = {
  search_path: 'pg_catalog, pg_temp',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  extra_float_digits: '1',
  bytea_output: 'hex',
  quote_all_identifiers: 'off',
  lc_monetary: 'C',
};

/**
 * The trigger function of a source table. It appends to mapping_changes the keys of changed rows if they are
 * columns, and otherwise the rows. Where that fails, as after a column was renamed, the view is compared
 * instead: no write of the shop fails.
 *
 * It has the rights of the writer, and may append because every role may. With the rights of its owner, the
 * owner of the table could use them, because casts of his types run here. A role that may only append is no
 * better owner: what runs as a role can replace the functions of the role.
 *
 * Settings of its own make an insert of one row a third slower, so a function has none if no setting changes
 * the text of its keys. Types and operators have their schema, because a writer's search path may have others.
 */
export function triggerFunction(
  schema: string,
  table: string,
  keys: readonly Key[],
  plainColumns: readonly string[],
): SourceFunction {
  const changes = `${schema}.mapping_changes`;
  const compare = (view: MappedView, reason: string) =>
    `insert into ${changes} (view, reason) values (${escapeLiteral(view)}, ${escapeLiteral(reason)});`;
  const logKeys = ({ view, key }: Key, rows: readonly string[]) => {
    const selects = rows.map(
      (each) =>
        `select ${escapeLiteral(view)}, ${mappedKey}::pg_catalog.text ${keysFrom(key, table, each)}
         where ${mappedKey} is not null`,
    );
    return `insert into ${changes} (view, key) ${selects.join(' union ')};`;
  };
  const logRows = (view: MappedView, rows: readonly string[]) => {
    const selects = rows.map(
      (each) =>
        `select ${escapeLiteral(view)}, ${escapeLiteral(table)}, pg_catalog.to_jsonb(changed.*) from ${each} as changed`,
    );
    return `insert into ${changes} (view, source, row) ${selects.join(' union all ')};`;
  };
  const columns = keys.filter(isColumn);
  const viewsOfQueries = new Set(keys.filter((key) => !isColumn(key)).map(({ view }) => view));
  const changed = (...rows: string[]) =>
    [
      ...columns.map((key) => ({ view: key.view, log: logKeys(key, rows) })),
      ...[...viewsOfQueries].map((view) => ({ view, log: logRows(view, rows) })),
    ]
      .map(
        ({ view, log }) =>
          `begin ${log} exception when others then ${compare(view, `a key of ${table} that fails`)} end;`,
      )
      .join('\n');
  // A column may have the name of a variable, such as `found`.
  const body = `
#variable_conflict use_column
begin
  if tg_level ${equals} 'ROW' then
    if not tg_op ${equals} 'INSERT' then ${changed('(select (old).*)')} end if;
    if not tg_op ${equals} 'DELETE' then ${changed('(select (new).*)')} end if;
  elsif tg_op ${equals} 'INSERT' then ${changed('new_rows')}
  elsif tg_op ${equals} 'UPDATE' then ${changed('old_rows', 'new_rows')}
  elsif tg_op ${equals} 'DELETE' then ${changed('old_rows')}
  else ${keys.map(({ view }) => compare(view, `TRUNCATE of ${table}`)).join('\n')}
  end if;
  return null;
end`;
  return {
    name: triggerFunctionName(table),
    parameters: '',
    body,
    returns: 'trigger language plpgsql',
    settings: keys.every((key) => isColumn(key) && plainColumns.includes(columnName(key)))
      ? {}
      : textSettings,
  };
}

/**
 * The function that finds the keys of a view for logged rows of a source table, a JSON array; null if all
 * its keys are columns. It has the rights of the worker.
 */
export function keyFunction(
  schema: string,
  table: string,
  keys: readonly Key[],
): SourceFunction | null {
  const queries = keys.filter((key) => !isColumn(key));
  if (queries.length === 0) return null;
  const rows = `pg_catalog.jsonb_populate_recordset(null::${table}, $2)`;
  return {
    name: keyFunctionName(table),
    parameters: 'text, jsonb',
    body: queries
      .map(
        ({ view, key }) =>
          `select ${mappedKey}::pg_catalog.text ${keysFrom(key, table, rows)}
           where ${mappedKey} is not null and $1 ${equals} ${escapeLiteral(view)}`,
      )
      .join(' union '),
    returns: 'setof text language sql stable',
    settings: { search_path: `${schema}, pg_temp` },
  };
}

const equals = 'operator(pg_catalog.=)';

/** No search path, and no other transaction, can change what it means. */
const isColumn = ({ key }: Key): boolean => /^\s*("[^"]+"|[a-z_][a-z0-9_]*)\s*$/i.test(key);

const columnName = ({ key }: Key): string => {
  const name = key.trim();
  return name.startsWith('"') ? name.slice(1, -1) : name.toLowerCase();
};

/** The key in a query of `keysFrom`: the table may have a column of the same name. */
export const mappedKey = 'mapped_keys.mapped_key';

/** SQL of the keys of rows, with the name of their table as the alias. */
export function keysFrom(key: string, table: string, rows: string): string {
  const query = /^\s*(select|with|values)\b/i.test(key) ? key : `select ${key}`;
  const alias = table.replace(/^("([^"]|"")*"|[^".]*)\./, '');
  return `from ${rows} as ${alias} cross join lateral (${query}) as mapped_keys (mapped_key)`;
}

export const triggerFunctionName = (table: string): string => functionName('map_rows_of', table);

/** The name of the function that finds the keys of logged rows. */
export const keyFunctionName = (table: string): string => functionName('find_keys_of', table);

/** Postgres cuts names at 63 bytes. */
function functionName(prefix: string, table: string): string {
  const name = `${prefix} ${table}`;
  if (Buffer.byteLength(name) <= 63) return name;
  return `${prefix} ${createHash('md5').update(table).digest('hex')}`;
}
