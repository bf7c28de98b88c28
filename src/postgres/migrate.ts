import { fileURLToPath } from 'node:url';
import pg from 'pg';
import Postgrator from 'postgrator';
import {
  type CaptureFacts,
  type CaptureProblem,
  captureFacts,
  captureProblem,
  captureSql,
} from './capture.ts';

const migrations = fileURLToPath(new URL('../migrations/*.sql', import.meta.url));
// Any number will do, as long as nothing else in the database uses it.
const advisoryLock = 7_390_214_655_001n;

export type Migration = {
  /** The files that were applied. */
  readonly applied: readonly string[];
  /** Whether the triggers that capture changes were not intact and were created again. */
  readonly isCaptureRestored: boolean;
  /** What still keeps changes from being captured; null if nothing does. */
  readonly captureProblem: CaptureProblem | null;
};

/**
 * Brings the schema up to date and restores the triggers that capture changes. All of it is
 * done or nothing; a second caller waits for the first and finds nothing left to do.
 */
export async function migrate(databaseUrl: string): Promise<Migration> {
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
    const capture = await restoreCapture(client);
    await client.query('commit');
    return {
      applied: applied.map((migration) => migration.filename.replace(/^.*\//, '')),
      ...capture,
    };
  } finally {
    await client.end().catch(() => {});
  }
}

/** Leaves intact triggers alone: if one is created again, all files are rebuilt. */
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
