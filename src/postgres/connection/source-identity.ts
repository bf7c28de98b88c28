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

/**
 * The current timeline: a scalar SQL expression. After a promotion, the control file has the former one
 * until a checkpoint. In recovery, WAL functions fail: a standby that follows another timeline may state the
 * former one until a restart point.
 */
export const timeline = `(
  case
    when pg_is_in_recovery() then (
      select greatest(timeline_id, min_recovery_end_timeline)
      from pg_control_checkpoint(), pg_control_recovery())
    else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int
  end)`;

const timelineSetting = 'crm_data_service.timeline';
const storedTimeline = `nullif(current_setting('${timelineSetting}', true), '')`;

/**
 * What a request may read from files, as `timeline database/identity`: a scalar SQL expression on
 * `organizations`. A promoted standby has another timeline, and may lack transactions that files show.
 * Connections survive a promotion, so the timeline is stored only after the end of recovery.
 */
export const servedSource = `(
  case
    when pg_is_in_recovery() then ${timeline}::text
    else coalesce(${storedTimeline}, set_config('${timelineSetting}', ${timeline}::text, false))
  end || ' ' || ${sourceIdentity})`;

/** Null on a connection that has not stored both values yet; half as expensive. */
export const storedServedSource = `(
  case when pg_is_in_recovery() then ${timeline}::text else ${storedTimeline} end
  || ' ' || ${storedIdentity} || '/' || organizations.identity)`;

/** Whether the source is in the database with this identity. */
export const isOfDatabase = (source: string, identity: string): boolean =>
  source.startsWith(`${identity}/`);

export async function readDatabaseIdentity(database: Database): Promise<string> {
  const { rows } = await database.query<{ identity: string }>(
    `select ${databaseIdentity} as identity`,
  );
  return rows[0]?.identity ?? '';
}
