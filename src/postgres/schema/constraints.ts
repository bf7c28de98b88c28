import { readFileSync } from 'node:fs';
import pg from 'pg';
import { OperatorError } from '../../process/operator-error.ts';
import { packageFile } from '../../process/package-files.ts';

/** The statements of constraints.sql, each with the table and name of what it creates. */
export const constraints = [
  ...readFileSync(packageFile('src/postgres/schema/constraints.sql'), 'utf8').matchAll(
    /^(?:create (?:unique )?index (?<index>\w+) on (?<of>\w+)|alter table (?<table>\w+) add constraint (?<constraint>\w+))[^;]+(?:;\nalter index [^;]+)?/gm,
  ),
].map(({ 0: statement, groups = {} }) => ({
  statement,
  isIndex: groups.index !== undefined,
  table: groups.of ?? groups.table ?? '',
  name: groups.index ?? groups.constraint ?? '',
}));

/** Creates what is missing, and returns its names. New tables have no rows. */
export async function restoreConstraints(client: pg.Client, areTablesNew: boolean) {
  const { rows } = await client.query<{ names: string[] }>(`
    select array_agg(relname || ' ' || name) as names
    from pg_class join (
      select conrelid as table_id, conname as name from pg_constraint
      union all
      select indrelid, relname from pg_index join pg_class on pg_class.oid = indexrelid
    ) as present on table_id = pg_class.oid
    where relnamespace = current_schema()::regnamespace`);
  const present = new Set(rows[0]?.names);
  const missing = constraints.filter(({ table, name }) => !present.has(`${table} ${name}`));
  for (const { statement, isIndex, table, name } of missing) {
    const suffix = isIndex || areTablesNew ? '' : ' not valid';
    await client.query(statement + suffix).catch((error) => {
      if (!(error instanceof pg.DatabaseError) || error.code !== undefinedColumn) throw error;
      throw new OperatorError(
        `Cannot restore ${name} on ${table}: ${error.message}. Add the column again.`,
      );
    });
  }
  return missing.map(({ table, name }) => `${name} on ${table}`);
}

const undefinedColumn = '42703';
