import pg from 'pg';
import { type Connection, type Database, inTransaction } from '../connection/pool.ts';
import type { MappingSource } from './mapping-definition.ts';
import { triggerNames } from './structure.ts';
import {
  keyFunction,
  type SourceFunction,
  triggerFunction,
  triggerFunctionName,
} from './trigger-function.ts';

const { escapeIdentifier, escapeLiteral } = pg;

// Statement triggers log what sessions write, and a row trigger for replicas what logical replication
// applies, as in capture.sql.

/** A table of the shop: a source, or a partition or child of one. */
export type SourceTable = {
  readonly oid: string;
  /** With its schema, quoted. */
  readonly name: string;
  /** The table that mapping_sources names, and what it says of it. */
  readonly root: string;
  readonly keys: readonly Pick<MappingSource, 'view' | 'key'>[];
  /** Columns of the root whose text no setting of a session changes. */
  readonly plainColumns: readonly string[];
  /** `p` for a partitioned table. */
  readonly kind: string;
  /** Whether they are enabled, by name. */
  readonly triggers: Readonly<Record<string, boolean>>;
  readonly isOwned: boolean;
};

/** The tables of the sources that exist, with their partitions and children. */
export async function readSourceTables(connection: Connection | Database): Promise<SourceTable[]> {
  const { rows } = await connection.query<SourceTable>(
    `with recursive roots as (
       select to_regclass(source)::oid as root,
         json_agg(json_build_object('view', view, 'key', key) order by view, key) as keys
       from mapping_sources where to_regclass(source) is not null group by 1
     ), tables (oid, root) as (
       select root, root from roots
       union
       select inhrelid, root from pg_inherits join tables on inhparent = tables.oid
     )
     select pg_class.oid::text as oid, quote_ident(nspname) || '.' || quote_ident(relname) as name,
       (select quote_ident(nspname) || '.' || quote_ident(relname)
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where pg_class.oid = root) as root, roots.keys, relkind as kind,
       array(
         select attname::text from pg_attribute join pg_type on pg_type.oid = atttypid
         where attrelid = root and attnum > 0 and not attisdropped
           and (typtype = 'e' or coalesce(nullif(typbasetype, 0), pg_type.oid) = any (
             '{int2,int4,int8,numeric,text,varchar,bpchar,name,uuid,bool,inet,macaddr}'::regtype[]))
       ) as "plainColumns",
       coalesce((
         select json_object_agg(tgname, tgenabled in ('O', 'A') or (tgname = $2 and tgenabled = 'R'))
         from pg_trigger where tgrelid = pg_class.oid and tgname = any ($1)), '{}') as triggers,
       pg_has_role(relowner, 'usage') as "isOwned"
     from tables join roots using (root) join pg_class using (oid)
       join pg_namespace on pg_namespace.oid = relnamespace
     order by root, (tables.oid = root) desc, name`,
    [Object.values(triggerNames), triggerNames.replica],
  );
  return rows;
}

/** The triggers that a table should have. Only its owner may enable one for replicas. */
const triggersFor = ({ kind, isOwned }: SourceTable): (keyof typeof triggerNames)[] => [
  'insert',
  'update',
  'delete',
  'truncate',
  // Postgres fires row triggers of partitions alone.
  ...(isOwned && kind !== 'p' ? (['replica'] as const) : []),
];

type RestoreOptions = {
  readonly lockTimeoutMs: number;
  readonly areOthersDropped: boolean;
};

/** Whether all changes of the table's rows are logged. */
export const isTriggered = (table: SourceTable): boolean =>
  triggersFor(table).every((event) => table.triggers[triggerNames[event]] === true);

/**
 * Creates the functions and triggers that are missing or differ, as of new partitions, and returns the
 * tables with new ones. Rejects without the right to, and if a writer keeps a table locked. Those of other
 * tables are dropped only if asked for: a table that mapping_sources does not find may have been renamed.
 */
export const restoreTriggers = (
  connection: Connection,
  { lockTimeoutMs, areOthersDropped }: RestoreOptions,
): Promise<string[]> =>
  inTransaction(connection, async () => {
    await connection.query(`set local lock_timeout = ${lockTimeoutMs}`);
    // Before the tables are read: a renamed one loses the triggers of its former name.
    if (areOthersDropped) await dropTriggers(connection, await readSourceTables(connection));
    const tables = await readSourceTables(connection);
    await createFunctions(connection, tables);
    const lacking = tables.filter((table) => !isTriggered(table));
    for (const table of lacking) await createTriggers(connection, table);
    return lacking.map(({ name }) => name);
  });

/** Creates the functions of sources whose keys have changed. */
async function createFunctions(
  connection: Connection,
  tables: readonly SourceTable[],
): Promise<void> {
  const { rows } = await connection.query<{ schema: string }>(
    'select quote_ident(current_schema()) as schema',
  );
  const schema = rows[0]?.schema ?? 'public';
  if (tables.length > 0) await letWritersAppend(connection);
  for (const { name, parameters, returns, settings, body } of functionsOf(schema, tables)) {
    const configured = Object.entries(settings).map(([setting, value]) => `${setting}=${value}`);
    const known = await connection.query(
      `select from pg_proc where pronamespace = current_schema()::regnamespace and proname = $1
         and prosrc = $2 and not prosecdef and coalesce(proconfig, '{}') = $3::text[]`,
      [name, body, configured],
    );
    if (known.rowCount !== 0) continue;
    const settingClauses = Object.entries(settings).map(
      ([setting, value]) =>
        `set ${setting} = ${setting === 'search_path' ? value : escapeLiteral(value)}`,
    );
    await connection.query(
      `create or replace function ${escapeIdentifier(name)}(${parameters}) returns ${returns}
       ${settingClauses.join(' ')} as ${escapeLiteral(body)}`,
    );
  }
}

/**
 * Grants every role the right to append to the queue: writers of a shop's tables have it without a grant
 * of their own. Rejects if it may not: without the right, writes of the shop would fail.
 */
export async function letWritersAppend(connection: Connection): Promise<void> {
  const { rows } = await connection.query<{ grants: string[] }>(
    `select array_remove(array[
       case when not has_schema_privilege('public', current_schema(), 'usage')
         then format('grant usage on schema %I to public', current_schema()) end,
       case when not has_table_privilege('public', 'mapping_changes', 'insert')
         then 'grant insert on mapping_changes to public' end], null) as grants`,
  );
  for (const grant of rows[0]?.grants ?? []) await connection.query(grant);
}

/** The functions of each source. */
function functionsOf(schema: string, tables: readonly SourceTable[]): SourceFunction[] {
  const sources = new Map(tables.map((table) => [table.root, table])).values();
  return [...sources].flatMap(({ root, keys, plainColumns }) => {
    const ofKeys = keyFunction(schema, root, keys);
    return [
      triggerFunction(schema, root, keys, plainColumns),
      ...(ofKeys === null ? [] : [ofKeys]),
    ];
  });
}

/** Creates the triggers that a table lacks, and enables those that are disabled. */
async function createTriggers(connection: Connection, table: SourceTable): Promise<void> {
  const calls = escapeIdentifier(triggerFunctionName(table.root));
  for (const event of triggersFor(table)) {
    const name = triggerNames[event];
    const isEnabled = table.triggers[name];
    if (isEnabled === true) continue;
    if (isEnabled === undefined) {
      const when = triggerEvents[event].replace('$', () => table.name);
      await connection.query(`create trigger ${name} after ${when} execute function ${calls}()`);
    }
    if (event === 'replica') {
      await connection.query(`alter table ${table.name} enable replica trigger ${name}`);
    } else if (isEnabled === false) {
      await connection.query(`alter table ${table.name} enable trigger ${name}`);
    }
  }
}

const triggerEvents: Readonly<Record<keyof typeof triggerNames, string>> = {
  insert: 'insert on $ referencing new table as new_rows for each statement',
  update: 'update on $ referencing old table as old_rows new table as new_rows for each statement',
  delete: 'delete on $ referencing old table as old_rows for each statement',
  truncate: 'truncate on $ for each statement',
  replica: 'insert or update or delete on $ for each row',
};

/**
 * Removes the triggers and functions of all but these tables, in the caller's transaction. Returns the
 * number of triggers.
 */
export async function dropTriggers(
  connection: Connection,
  tables: readonly SourceTable[] = [],
): Promise<number> {
  const { rows } = await connection.query<{ statement: string; triggers: number }>(
    `select format('drop function %s cascade', pg_proc.oid::regprocedure) as statement,
       (select count(*)::int from pg_trigger where tgfoid = pg_proc.oid and tgparentid = 0) as triggers
     from pg_proc where pronamespace = current_schema()::regnamespace
       and proname ~ '^(map_rows|find_keys)_of ' and proname <> all ($1)`,
    [functionsOf('', tables).map(({ name }) => name)],
  );
  for (const { statement } of rows) await connection.query(statement);
  if (tables.length === 0) await connection.query('revoke insert on mapping_changes from public');
  return rows.reduce((sum, { triggers }) => sum + triggers, 0);
}
