import type { Database } from '../../src/postgres/connection/pool.ts';

/** A transaction or slot that holds back the horizon of vacuum and of pruning. */
export type HorizonHolder = {
  readonly kind: 'transaction' | 'prepared transaction' | 'replication slot' | 'standby';
  /** A process id, or a name. */
  readonly name: string;
  readonly ageSeconds: number | null;
  /** The current or last statement; null if unknown. */
  readonly query: string | null;
};

/** Shorter transactions hold back little. */
const minAgeSeconds = 60;

/** The oldest transaction comes first. */
export async function readHorizonHolders(database: Database): Promise<HorizonHolder[]> {
  const { rows } = await database.query<HorizonHolder>(`
    select 'transaction' as kind, pid::text as name,
      extract(epoch from now() - xact_start)::int as "ageSeconds",
      left(regexp_replace(query, '\\s+', ' ', 'g'), 120) as query
    from pg_stat_activity
    where (backend_xid is not null or backend_xmin is not null)
      and backend_type = 'client backend'
      and datname = current_database() and pid <> pg_backend_pid()
      and xact_start < now() - interval '${minAgeSeconds} seconds'
    union all
    select 'standby', coalesce(client_addr::text, application_name),
      extract(epoch from now() - backend_start)::int, null
    from pg_stat_replication
    where age(backend_xmin) > 1000000
    union all
    select 'prepared transaction', gid, extract(epoch from now() - prepared)::int, null
    from pg_prepared_xacts
    where database = current_database()
      and prepared < now() - interval '${minAgeSeconds} seconds'
    union all
    select 'replication slot', slot_name, null, null
    from pg_replication_slots
    where xmin is not null and not active
    order by "ageSeconds" desc nulls last`);
  return rows;
}
