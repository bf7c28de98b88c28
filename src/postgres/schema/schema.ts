import { readdirSync } from 'node:fs';
import sql from 'sql-template-tag';
import { packageFile } from '../../process/package-files.ts';
import type { DatabaseFailure, TableRights } from '../connection/database-failure.ts';
import type { Database } from '../connection/pool.ts';

export const migrationsFolder = packageFile('src/migrations');

/** The table with the migrations that Postgrator has applied. */
export const migrationsTable = 'schema_migrations';

/** The names of this release's migrations by number, as Postgrator stores them. */
const migrationNames = new Map(
  readdirSync(migrationsFolder).map((file) => {
    const [number, , name] = file.split('.');
    return [Number(number), name];
  }),
);

/** The number of the last migration of this release. */
export const schemaVersion = Math.max(...migrationNames.keys());

/**
 * `migrate` creates an empty type of this name and the schema's version. `pg_restore --clean` of an earlier
 * dump leaves the type, and with it evidence of the later migrations.
 */
export const versionMarker = 'schema_of_version_';

export function apiRights(rateLimitStore: 'memory' | 'postgres'): TableRights {
  const read = [
    'organizations',
    'api_keys',
    'customers',
    'segments',
    'segment_customers',
    'tags',
    'customer_tags',
    'attributes',
    'flows',
    'email_campaigns',
    'template_campaigns',
    'purchases',
    'mapping_state',
    'mapped_organizations',
  ].map((table) => [table, 'select'] as const);
  const counted = { rate_limits: 'select, insert, update, delete' };
  return { ...Object.fromEntries(read), ...(rateLimitStore === 'postgres' ? counted : {}) };
}

/** The missing tables or privileges of this role; null if there are none. */
export async function findTableProblem(
  database: Pick<Database, 'query'>,
  rights: TableRights,
): Promise<DatabaseFailure | null> {
  const { rows } = await database.query<{
    schema: string | null;
    missing: string[] | null;
    refused: string[] | null;
    role: string;
  }>(sql`
    with needed as (
      select key as name, value as privileges, to_regclass(quote_ident(key)) as found
      from json_each_text(${JSON.stringify(rights)}))
    select current_schema() as schema, current_user as role,
      array_agg(name order by name) filter (where found is null) as missing,
      array_agg(name order by name) filter (where not (
        select bool_and(has_table_privilege(found, privilege))
        from unnest(string_to_array(privileges, ', ')) as privilege)) as refused
    from needed`);
  const { schema = null, role = '', missing = null, refused = null } = rows[0] ?? {};
  if (missing !== null) {
    return {
      message: `The table ${missing[0]} is not in ${schema === null ? 'the search path' : `the schema ${schema}`}.`,
      advice:
        'Run `npx crm-data-service migrate`. If the tables are in another schema, name it in DATABASE_URL ' +
        '(`?options=-c%20search_path=…`) and grant `usage` on it.',
    };
  }
  if (refused === null) return null;
  const grants = [...new Set(refused.map((table) => rights[table]))].map((privileges) => {
    const tables = refused.filter((table) => rights[table] === privileges);
    return `grant ${privileges} on ${tables.join(', ')} to ${role};`;
  });
  return {
    message: `The role of DATABASE_URL lacks rights on ${refused.join(', ')}.`,
    advice: `As the owner: \`${grants.join(' ')}\``,
  };
}

const docs = 'docs/deployment/README.md';

/**
 * Null if this release supports the schema's version. Also null if the table of migrations is
 * missing, or the role may not read it.
 */
export async function findVersionProblem(
  database: Pick<Database, 'query'>,
  isToMigrate: boolean,
): Promise<DatabaseFailure | null> {
  const known = await database.query(sql`
    select from pg_attribute
    where attrelid = to_regclass(${migrationsTable}) and attname = 'md5'
      and has_table_privilege(attrelid, 'select')`);
  if (known.rowCount === 0) return null;
  const { rows } = await database.query<{ version: number; name: string; marked: number | null }>(
    `select version::int, name, (
       select max(substr(typname, ${versionMarker.length + 1})::int) from pg_type
       where typnamespace = current_schema()::regnamespace and typname ~ '^${versionMarker}[0-9]+$'
     ) as marked
     from ${migrationsTable} where version > 0 order by version`,
  );
  const isOther = rows.some((row) => (migrationNames.get(row.version) ?? row.name) !== row.name);
  if (isOther) {
    return {
      message: 'The schema has other migrations than this release, as before their new numbering.',
      advice:
        `Copy its rows into a new database, with the commands of ${docs}, ` +
        'section "Copy into a new database".',
    };
  }
  const { version = 0, marked = null } = rows.at(-1) ?? {};
  if (marked !== null && marked > version) {
    return {
      message:
        `The schema has migrations up to ${version}, and parts of version ${marked}, as after a dump ` +
        'was restored over a later schema.',
      advice: `Restore the dump into an empty database: ${docs}, section "Go back to the release before".`,
    };
  }
  const message = `The schema has version ${version}, and this release needs ${schemaVersion}.`;
  if (version > schemaVersion) {
    return { message, advice: 'Install the release that migrated the schema, or a later one.' };
  }
  if (version < schemaVersion && !isToMigrate)
    return { message, advice: 'Run `npx crm-data-service migrate`.' };
  return null;
}
