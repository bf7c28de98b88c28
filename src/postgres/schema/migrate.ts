import pg from 'pg';
import Postgrator from 'postgrator';
import { OperatorError } from '../../process/operator-error.ts';
import {
  type CaptureFacts,
  type CaptureProblem,
  captureFacts,
  captureProblem,
  captureSql,
} from '../capture/capture.ts';
import { prepareSession } from '../connection/session.ts';
import { restrictFunctions } from '../rights/restrict-functions.ts';
import { restoreConstraints } from './constraints.ts';
import { releasedMigrations } from './released-migrations.ts';
import { migrationsFolder, migrationsTable, schemaVersion, versionMarker } from './schema.ts';

// An arbitrary number, which no other program may use.
export const migrationLock = 7_390_214_655_001n;

type Migration = {
  readonly applied: readonly string[];
  /** The missing constraints and indexes that were created, unless all tables are new. */
  readonly restored: readonly string[];
  /** Whether the capture triggers were created again. */
  readonly isCaptureRestored: boolean;
  /** The remaining reason why changes are not captured; null if there is none. */
  readonly captureProblem: CaptureProblem | null;
};

/**
 * Migrates the schema and creates missing capture triggers, constraints and indexes, in one
 * transaction. A concurrent call waits, and then has nothing to do.
 */
export async function migrate(databaseUrl: string): Promise<Migration> {
  const client = new pg.Client({
    connectionString: databaseUrl,
    application_name: 'crm-data-service migrate',
  });
  client.on('error', () => {});
  await client.connect();
  try {
    await prepareSession(client);
    const { rows } = await client.query<{ name: string }>('select current_schema() as name');
    const schema = rows[0]?.name ?? 'public';
    await client.query('begin');
    await client.query('select pg_advisory_xact_lock($1)', [migrationLock]);
    const migration = await applyMigrations(client, schema).catch((error) => {
      throw nameTaken(error, schema) ?? error;
    });
    await client.query('commit');
    return migration;
  } finally {
    await client.end().catch(() => {});
  }
}

async function applyMigrations(client: pg.Client, schema: string): Promise<Migration> {
  if (await hasOwnTable(client)) await acceptFormerFiles(client);
  const postgrator = new Postgrator({
    migrationPattern: `${migrationsFolder}/*.sql`,
    driver: 'pg',
    schemaTable: migrationsTable,
    currentSchema: schema,
    execQuery: (query) => client.query(query),
  });
  const applied = await postgrator.migrate().catch((error: Error) => {
    if (!error.message.startsWith('MD5 checksum failed')) throw error;
    throw new OperatorError(
      `A file of ${migrationsFolder} differs from the applied one (${error.message}). ` +
        'Install the files of the release again, without a change.',
    );
  });
  await markVersion(client);
  const areTablesNew = applied.some(({ version }) => version === 1);
  const capture = await restoreCapture(client);
  await restrictFunctions(client);
  const created =
    capture.captureProblem === null ? await restoreConstraints(client, areTablesNew) : [];
  return {
    applied: applied.map((migration) => migration.filename.replace(/^.*\//, '')),
    ...capture,
    restored: areTablesNew ? [] : created,
  };
}

const ownSchema =
  'Use a database or a schema of its own: `create schema …`, and name it in DATABASE_URL ' +
  '(`?options=-c%20search_path=…`).';

/** Whether migrations were applied. Another program may have a table of this name. */
async function hasOwnTable(client: pg.Client): Promise<boolean> {
  const { rows } = await client.query<{ columns: string[]; schema: string }>(
    `select table_schema as schema, array_agg(column_name::text) as columns
     from information_schema.columns
     where table_name = $1 and table_schema = current_schema() group by 1`,
    [migrationsTable],
  );
  if (rows[0] === undefined) return false;
  if (rows[0].columns.includes('md5')) return true;
  throw new OperatorError(
    `The table ${migrationsTable} in the schema ${rows[0].schema} belongs to another program. ${ownSchema}`,
  );
}

/** Replaces the stored MD5 of former files with the same statements. */
async function acceptFormerFiles(client: pg.Client): Promise<void> {
  for (const [file, [md5, ...former]] of Object.entries(releasedMigrations)) {
    if (former.length === 0) continue;
    await client.query(
      `update ${migrationsTable} set md5 = $1 where version = $2 and md5 = any ($3)`,
      [md5, Number.parseInt(file, 10), former],
    );
  }
}

/** See `versionMarker`. */
async function markVersion(client: pg.Client): Promise<void> {
  const name = `${versionMarker}${schemaVersion}`;
  const { rowCount } = await client.query(
    'select from pg_type where typname = $1 and typnamespace = current_schema()::regnamespace',
    [name],
  );
  if (rowCount === 0) await client.query(`create type ${name} as enum ()`);
}

/** Null for other errors. */
function nameTaken(error: unknown, schema: string): OperatorError | null {
  // Duplicate table or index, type or trigger, function.
  const isTaken = error instanceof pg.DatabaseError && /^42(P07|710|723)$/.test(error.code ?? '');
  if (!isTaken) return null;
  return new OperatorError(
    `The schema ${schema} has something of the same name as this service: ${error.message}. ${ownSchema}`,
  );
}

/** Leaves intact triggers unchanged, because a new trigger causes a rebuild of all files. */
async function restoreCapture(
  client: pg.Client,
): Promise<Pick<Migration, 'isCaptureRestored' | 'captureProblem'>> {
  const before = await readCaptureProblem(client);
  if (before === null || !before.isRestorable) {
    return { isCaptureRestored: false, captureProblem: before };
  }
  await client.query(captureSql);
  return { isCaptureRestored: true, captureProblem: await readCaptureProblem(client) };
}

async function readCaptureProblem(client: pg.Client): Promise<CaptureProblem | null> {
  const { rows } = await client.query<{ facts: CaptureFacts }>(`select ${captureFacts} as facts`);
  return captureProblem(rows[0]?.facts ?? null);
}
