import sql, { raw } from 'sql-template-tag';
import { microsecondsOf } from '../lists/instants.ts';
import { mappedInstant } from './claimed-instant.ts';
import type { Connection } from './pool.ts';

/** Beyond this, a transaction whose begin is not known may be missed. */
const overlap = "interval '1 hour'";

/**
 * The oldest begin of a transaction that may still commit. A transaction is listed shortly after its
 * begin, hence the second. Of a prepared transaction, only the end is known.
 */
const oldestBegin = `
  least(
    clock_timestamp() - interval '1 second',
    (
      select min(xact_start) from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid()
        and backend_type <> 'autovacuum worker'
    ),
    (select min(prepared) - ${overlap} from pg_prepared_xacts where database = current_database())
  )`;

const statement = (organizationId: bigint) => sql`
    select ${raw(microsecondsOf('instant'))} as instant
    from (
      select least(${mappedInstant(organizationId)}, case
        when pg_is_in_recovery() then coalesce(pg_last_xact_replay_timestamp(), 'epoch') - ${raw(overlap)}
        when pg_has_role('pg_read_all_stats', 'usage') then ${raw(oldestBegin)}
        else clock_timestamp() - ${raw(overlap)}
      end) as instant
    ) as visible`;

/**
 * An instant, in microseconds since 1970, that is not later than the begin of any transaction that a
 * later statement cannot see. So rows that it cannot see have a later `updated_at`, if writers set
 * that to now(). Without the right to see other sessions, and on a standby, an hour ago.
 */
export async function visibleInstant(
  connection: Connection,
  organizationId: bigint,
): Promise<bigint> {
  const { rows } = await connection.query<{ instant: bigint }>(statement(organizationId));
  return (rows[0] as { instant: bigint }).instant;
}
