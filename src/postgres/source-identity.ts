import type { Database } from './pool.ts';

const setting = 'crm_data_service.database';
const storedIdentity = `nullif(current_setting('${setting}', true), '')`;

/**
 * The database as `system identifier/database OID`: a scalar SQL expression. Each connection
 * computes the value once and stores it in a setting, because reading the control file costs as
 * much as a key check.
 */
export const databaseIdentity = `
  coalesce(${storedIdentity},
    set_config('${setting}', (
      select system_identifier || '/' || (select oid from pg_database where datname = current_database())
      from pg_control_system()), false))`;

/**
 * The organization as `database/identity`: a scalar SQL expression on `organizations`. The id alone
 * is not enough, because a restored or new database may give the id to another company.
 */
export const sourceIdentity = `(${databaseIdentity} || '/' || organizations.identity)`;

/** Null on a connection that has not stored the value yet; half as expensive. */
export const storedSourceIdentity = `(${storedIdentity} || '/' || organizations.identity)`;

/** The current timeline. The last checkpoint may have an older one, except in recovery. */
export const timeline = `(
  select case
    when pg_is_in_recovery() then timeline_id
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
  end from pg_control_checkpoint())`;

/** Whether the source is in the database with this identity. */
export const isOfDatabase = (source: string, identity: string): boolean =>
  source.startsWith(`${identity}/`);

export async function readDatabaseIdentity(database: Database): Promise<string> {
  const { rows } = await database.query<{ identity: string }>(
    `select ${databaseIdentity} as identity`,
  );
  return rows[0]?.identity ?? '';
}
