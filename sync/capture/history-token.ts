import { randomUUID } from 'node:crypto';
import sql, { type Sql } from 'sql-template-tag';
import type { Database } from '../../src/postgres/connection/pool.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

/** Tokens belong to no organization. */
const noOrganization = 0n;

/**
 * Commits a new token to the change log, after a snapshot and before its rows are published. The
 * token has two effects:
 *
 * - The commit waits for the disk, and the WAL before the commit is on the disk too. So a crash
 *   of Postgres loses no transaction that the snapshot sees.
 * - A database with the token has a history that includes the snapshot. A restored copy from
 *   before the snapshot lacks the token, whatever transactions follow.
 *
 * The token is pruned with the entries that the snapshot needs. missing-changes.ts decides whether a history
 * lacks the snapshot, and tick.ts (`beginHistory`) begins a new one.
 */
export async function commitToken(database: Database): Promise<string> {
  const token = randomUUID();
  await database.query(sql`
    with durable as materialized (select set_config('synchronous_commit', 'local', true))
    insert into purchase_changes (organization_id, transaction_id, token)
    select ${noOrganization}, pg_current_xact_id(), ${token}::uuid from durable`);
  return token;
}

/** Commits a token after the snapshot, so that a watermark may refer to the snapshot. */
export const confirmSnapshot = async (
  database: Database,
  now: SourceSnapshot,
): Promise<Watermark> => ({ ...now, token: await commitToken(database) });

/** A condition: the change log has the token. */
export const isTokenKnown = (token: Sql): Sql =>
  sql`exists (select from purchase_changes where token = ${token})`;
