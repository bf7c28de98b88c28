import type { TableRights } from '../postgres/database-failure.ts';
import { createPool, type Database } from '../postgres/pool.ts';
import { type DatabaseNeeds, requireDatabase } from '../postgres/require-database.ts';
import { readSettings, requireDatabaseUrl } from '../settings.ts';

/** The URL of a database that a command can use, once it can; waiting is told on standard error. */
export async function commandDatabase(needs: DatabaseNeeds): Promise<string> {
  const settings = readSettings();
  const databaseUrl = requireDatabaseUrl(settings);
  await requireDatabase(databaseUrl, needs, {
    forMs: settings.databaseWaitMs,
    report: (line) => console.error(line),
  });
  return databaseUrl;
}

/** Runs a command's work on one connection to the primary, whose tables it uses as `rights` say. */
export async function withDatabase(
  applicationName: string,
  rights: TableRights,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  const databaseUrl = await commandDatabase({ isPrimary: true, rights });
  const database = createPool(databaseUrl, { max: 1, applicationName });
  try {
    await work(database);
  } finally {
    await database.end();
  }
}
