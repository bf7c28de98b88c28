import type { Logger } from 'pino';
import type { TableRights } from '../postgres/connection/database-failure.ts';
import { createPool, type Database } from '../postgres/connection/pool.ts';
import {
  type DatabaseNeeds,
  type DatabaseWait,
  requireDatabase,
} from '../postgres/connection/require-database.ts';
import { readSettings, requireDatabaseUrl, type Settings } from '../settings/settings.ts';

/** A wait for Postgres that logs a warning for each transient condition. */
export const loggedWait = (
  { databaseWaitMs }: Settings,
  log: Logger,
  stopped: AbortSignal | undefined,
): DatabaseWait => ({ forMs: databaseWaitMs, report: (line) => log.warn(line), stopped });

/** Waits until a command can use the database, and returns its URL. */
export async function commandDatabase(needs: DatabaseNeeds): Promise<string> {
  const settings = readSettings();
  const databaseUrl = requireDatabaseUrl(settings);
  await requireDatabase(databaseUrl, needs, {
    forMs: settings.databaseWaitMs,
    report: (line) => console.error(line),
  });
  return databaseUrl;
}

/**
 * Runs `work` on one connection with these privileges. Writing requires the primary. With a timeout
 * of null, statements may take any time.
 */
export async function withDatabase(
  applicationName: string,
  rights: TableRights,
  work: (database: Database) => Promise<void>,
  statementTimeoutMs: number | null = 30_000,
): Promise<void> {
  const isPrimary = Object.values(rights).some((privileges) => privileges !== 'select');
  const databaseUrl = await commandDatabase({ isPrimary, rights });
  const database = createPool(databaseUrl, {
    // A mapping is copied on two, while a third one keeps others from it.
    max: 3,
    applicationName,
    // A policy that hides rows is an error, and no policy of a shop runs with the rights of a command.
    settings: { row_security: 'off' },
    ...(statementTimeoutMs !== null && { statementTimeoutMs }),
  });
  try {
    await work(database);
  } finally {
    await database.end();
  }
}
