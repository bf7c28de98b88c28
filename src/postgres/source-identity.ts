import type { Database } from './pool.ts';

const setting = 'crm_data_service.database';
const storedIdentity = `nullif(current_setting('${setting}', true), '')`;

/**
 * Which database this is, as `system identifier/database OID`: a scalar SQL expression.
 * Neither changes while a connection lives, so that each connection computes it once and
 * keeps it in a setting: reading the control file costs as much as a key check.
 */
const databaseIdentity = `
  coalesce(${storedIdentity},
    set_config('${setting}', (
      select system_identifier || '/' || (select oid from pg_database where datname = current_database())
      from pg_control_system()), false))`;

/**
 * Which organization of which database, as `database/identity`: a scalar SQL expression
 * where `organizations` is in scope. An id alone does not say that: a restored database, or
 * one that was created anew, may have given the id to another company.
 */
export const sourceIdentity = `(${databaseIdentity} || '/' || organizations.identity)`;

/** The same, but null on a connection that has not computed it: twice as cheap. */
export const storedSourceIdentity = `(${storedIdentity} || '/' || organizations.identity)`;

/**
 * The timeline that is being written, which the last checkpoint may not know yet. In
 * recovery there is only the checkpoint's.
 */
export const timeline = `(
  select case
    when pg_is_in_recovery() then timeline_id
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
  end from pg_control_checkpoint())`;

/** Whether what was read from `source` was read from the database with that identity. */
export const isOfDatabase = (source: string, identity: string): boolean =>
  source.startsWith(`${identity}/`);

export async function readDatabaseIdentity(database: Database): Promise<string> {
  const { rows } = await database.query<{ identity: string }>(
    `select ${databaseIdentity} as identity`,
  );
  return rows[0]?.identity ?? '';
}
