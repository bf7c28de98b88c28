import type { Logger } from 'pino';
import type { TableRights } from '../postgres/database-failure.ts';
import { createPool, type Database } from '../postgres/pool.ts';
import {
  type DatabaseNeeds,
  type DatabaseWait,
  requireDatabase,
} from '../postgres/require-database.ts';
import { readSettings, requireDatabaseUrl, type Settings } from '../settings.ts';

/** How a process waits for Postgres at its start: with a warning in its log for each condition. */
export const loggedWait = (
  { databaseWaitMs }: Settings,
  log: Logger,
  stopped: AbortSignal | undefined,
): DatabaseWait => ({ forMs: databaseWaitMs, report: (line) => log.warn(line), stopped });

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

/** Runs a command's work on one connection, with the tables that `rights` name. To write takes the primary. */
export async function withDatabase(
  applicationName: string,
  rights: TableRights,
  work: (database: Database) => Promise<void>,
): Promise<void> {
  const isPrimary = Object.values(rights).some((privileges) => privileges !== 'select');
  const databaseUrl = await commandDatabase({ isPrimary, rights });
  const database = createPool(databaseUrl, { max: 1, applicationName });
  try {
    await work(database);
  } finally {
    await database.end();
  }
}
