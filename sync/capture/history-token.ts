import { randomUUID } from 'node:crypto';
import sql, { type Sql } from 'sql-template-tag';
import type { Database } from '../../src/postgres/pool.ts';

/**
 * Commits a new token to the change log, after a snapshot was taken and before its rows are
 * committed to a file. From then on two things hold:
 *
 * - A crash of Postgres takes back nothing that the snapshot saw: the commit waits for the
 *   disk, and everything that was logged before it is on the disk first.
 * - A database that knows the token has a history that includes the snapshot. A copy from
 *   before it, restored, does not know the token, however many transactions follow.
 *
 * The token is deleted with the entries that the snapshot needs, and not before.
 */
export async function commitToken(database: Database, organizationId: bigint): Promise<string> {
  const token = randomUUID();
  await database.query(sql`
    with durable as materialized (select set_config('synchronous_commit', 'local', true))
    insert into purchase_changes (organization_id, transaction_id, token)
    select ${organizationId}, pg_current_xact_id(), ${token}::uuid from durable`);
  return token;
}

/** Whether the change log has the token: a condition. */
export const isTokenKnown = (token: Sql): Sql =>
  sql`exists (select from purchase_changes where token = ${token})`;
