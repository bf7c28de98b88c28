import pg from 'pg';
import type { MappedView, MappingSource } from './mapping-definition.ts';

const { escapeLiteral } = pg;

type Key = Pick<MappingSource, 'view' | 'key'>;

export type TriggerFunction = {
  readonly body: string;
  /** The rest of its definition. */
  readonly options: string;
};

/**
 * The trigger function of a source table: appends the keys of changed rows to mapping_changes. Where a key
 * fails, as after its column was renamed, its view is compared instead: no write of the shop fails. A
 * search path of its own costs an insert of one row a fifth, and a column needs none: types and operators
 * have their schema, because a writer may set a path whose own ones would run as the owner.
 */
export function triggerFunction(
  schema: string,
  table: string,
  keys: readonly Key[],
): TriggerFunction {
  const changes = `${schema}.mapping_changes`;
  const compare = (view: MappedView) =>
    `insert into ${changes} (view) values (${escapeLiteral(view)});`;
  const changed = (...rows: string[]) =>
    keys
      .map(({ view, key }) => {
        const selects = rows.map(
          (each) =>
            `select ${escapeLiteral(view)}, mapped_keys.mapped_key::pg_catalog.text ${keysFrom(key, table, each)}
             where mapped_keys.mapped_key is not null`,
        );
        return `begin insert into ${changes} (view, key) ${selects.join(' union ')};
          exception when others then ${compare(view)} end;`;
      })
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
  else ${keys.map(({ view }) => compare(view)).join('\n')}
  end if;
  return null;
end`;
  const areColumns = keys.every(({ key }) => isColumn(key));
  const path = areColumns ? '' : `set search_path = ${schema}, pg_temp`;
  return { body, options: `language plpgsql security definer ${path}` };
}

const equals = 'operator(pg_catalog.=)';

/** No search path can change what it means. */
const isColumn = (key: string): boolean => /^\s*("[^"]+"|[a-z_][a-z0-9_]*)\s*$/i.test(key);

/** SQL of the keys of rows, with the name of their table as the alias. */
export function keysFrom(key: string, table: string, rows: string): string {
  const query = /^\s*(select|with|values)\b/i.test(key) ? key : `select ${key}`;
  const alias = table.replace(/^("([^"]|"")*"|[^".]*)\./, '');
  return `from ${rows} as ${alias} cross join lateral (${query}) as mapped_keys (mapped_key)`;
}
