import type { Database } from './pool.ts';

/**
 * Which database this is, as `system/timeline/database`: a select list over
 * `systemIdentifierTables`. The timeline is the one being written, which the last
 * checkpoint may not know of yet; in recovery there is only the checkpoint's.
 */
export const systemIdentifierExpression = `
  system.system_identifier || '/' || case
    when pg_is_in_recovery() then checkpoint.timeline_id
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
  end || '/' || (select oid from pg_database where datname = current_database())`;
export const systemIdentifierTables =
  'pg_control_system() as system, pg_control_checkpoint() as checkpoint';

/** Whether two identifiers name one database, before and after a failover perhaps. */
export function isSameDatabase(one: string, other: string): boolean {
  const [system, , database] = one.split('/');
  const [otherSystem, , otherDatabase] = other.split('/');
  return system === otherSystem && database === otherDatabase;
}

export async function readSystemIdentifier(database: Database): Promise<string> {
  const { rows } = await database.query<{ identifier: string }>(
    `select ${systemIdentifierExpression} as identifier from ${systemIdentifierTables}`,
  );
  return rows[0]?.identifier ?? '';
}
