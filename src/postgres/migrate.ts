import { fileURLToPath } from 'node:url';
import pg from 'pg';
import Postgrator from 'postgrator';

const migrations = fileURLToPath(new URL('../migrations/*.sql', import.meta.url));
// Any number will do, as long as nothing else in the database uses it.
const advisoryLock = 7_390_214_655_001n;

/**
 * Brings the schema up to date and returns the files that were applied. All of
 * them are applied or none; a second caller waits for the first and finds
 * nothing left to do.
 */
export async function migrate(databaseUrl: string): Promise<string[]> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'crm-data-service migrate',
  });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query('begin');
    await client.query('select pg_advisory_xact_lock($1)', [advisoryLock]);
    const { rows } = await client.query<{ name: string }>('select current_schema() as name');
    const postgrator = new Postgrator({
      migrationPattern: migrations,
      driver: 'pg',
      schemaTable: 'schema_migrations',
      currentSchema: rows[0]?.name ?? 'public',
      execQuery: (query) => client.query(query),
    });
    const applied = await postgrator.migrate();
    await client.query('commit');
    return applied.map((migration) => migration.filename.replace(/^.*\//, ''));
  } finally {
    await client.end().catch(() => {});
  }
}
