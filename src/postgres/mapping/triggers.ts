import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { type Connection, inTransaction } from '../connection/pool.ts';
import { readSourceTables, type SourceTable } from './source-tables.ts';
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
  /** A table that mapping_sources does not find may have been renamed. */
  readonly areOthersDropped: boolean;
  /** How often each table is tried while writers keep it locked; once by default. */
  readonly attempts?: number;
  readonly signal?: AbortSignal;
};

/** What a command may wait for writers. */
export const triggerLock = { lockTimeoutMs: 1_000, attempts: 30 };

/** Whether all changes of the table's rows are logged. */
export const isTriggered = (table: SourceTable): boolean =>
  triggersFor(table).every((event) => table.triggers[triggerNames[event]] === true);

/**
 * Creates the functions and triggers that are missing or differ, as of new partitions, and returns the
 * tables with new ones. Rejects without the right to, and if a writer keeps a table locked.
 *
 * Each table has a transaction of its own. One that waits for a table while it keeps another one locked could
 * end in a deadlock with a write of the shop, and Postgres could cancel the write.
 */
export async function restoreTriggers(
  connection: Connection,
  options: RestoreOptions,
): Promise<string[]> {
  const { lockTimeoutMs, areOthersDropped } = options;
  const together = (work: () => Promise<void>): Promise<void> =>
    betweenWriters(connection, `set local lock_timeout = ${lockTimeoutMs}`, work, options);
  if (areOthersDropped) {
    await dropTriggers(connection, await readSourceTables(connection), options);
  }
  const tables = await readSourceTables(connection);
  await together(() => createFunctions(connection, tables));
  const restored: string[] = [];
  for (const { oid } of tables.filter((table) => !isTriggered(table))) {
    await together(async () => {
      // Another process may have created them meanwhile.
      const table = (await readSourceTables(connection)).find((each) => each.oid === oid);
      if (table === undefined || isTriggered(table)) return;
      await createTriggers(connection, table);
      restored.push(table.name);
    });
  }
  return restored;
}

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

/** Writers of the shop wait behind a waiting lock, so it waits for a short time, again and again. */
async function betweenWriters(
  connection: Connection,
  setTimeout: string,
  work: () => Promise<void>,
  { attempts = 1, signal }: Pick<RestoreOptions, 'attempts' | 'signal'>,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await inTransaction(connection, async () => {
        await connection.query(setTimeout);
        // A worker and `apply` may create the same function at the same time.
        await connection.query('select pg_advisory_xact_lock($1)', [triggersLock]);
        await work();
      });
    } catch (error) {
      const isLocked =
        error instanceof pg.DatabaseError && /^(55P03|57014)$/.test(error.code ?? '');
      if (!isLocked || attempt === attempts) throw error;
      await sleep(pauseMs, undefined, signal && { signal });
    }
  }
}

const pauseMs = 1_000;
const triggersLock = 7_332_684;

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
 * Less than Postgres's `deadlock_timeout`, after which it cancels a statement of a deadlock. So that is not a
 * write of the shop, although one function may have triggers on a table and its partitions.
 */
const dropTimeoutMs = 500;

/**
 * Removes the triggers and functions of all but these tables, each function in a transaction of its own.
 * Returns the number of triggers. Rejects if writers keep a table locked.
 */
export async function dropTriggers(
  connection: Connection,
  tables: readonly SourceTable[],
  options: Pick<RestoreOptions, 'attempts' | 'signal'>,
): Promise<number> {
  const { rows } = await connection.query<{ statement: string; triggers: number }>(
    `select format('drop function if exists %s cascade', pg_proc.oid::regprocedure) as statement,
       (select count(*)::int from pg_trigger where tgfoid = pg_proc.oid and tgparentid = 0) as triggers
     from pg_proc where pronamespace = current_schema()::regnamespace
       and proname ~ '^(map_rows|find_keys)_of ' and proname <> all ($1)`,
    [functionsOf('', tables).map(({ name }) => name)],
  );
  for (const { statement } of rows) {
    const drop = async (): Promise<void> => void (await connection.query(statement));
    const timeout = `set local statement_timeout = ${dropTimeoutMs}`;
    await betweenWriters(connection, timeout, drop, options);
  }
  if (tables.length === 0) await connection.query('revoke insert on mapping_changes from public');
  return rows.reduce((sum, { triggers }) => sum + triggers, 0);
}
