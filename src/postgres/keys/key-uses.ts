import sql from 'sql-template-tag';
import type { DatabaseFailure } from '../connection/database-failure.ts';
import { type Database, firstRow } from '../connection/pool.ts';

/**
 * Records uses of keys by their age in milliseconds, at most once a minute for a key. Skips rows
 * that another process writes now, and uses before the recorded one. Returns the reason if the
 * role may not write.
 */
export async function recordKeyUses(
  database: Database,
  ages: ReadonlyMap<bigint, number>,
): Promise<DatabaseFailure['message'] | null> {
  // A refused UPDATE would be an error in the log of Postgres, once a minute.
  const role = await firstRow<{ name: string; may_update: boolean; is_read_only: boolean }>(
    database,
    sql`
      select current_user as name,
        has_column_privilege('api_keys', 'last_used_at', 'update') as may_update,
        current_setting('transaction_read_only') = 'on' as is_read_only`,
  );
  if (role?.is_read_only === true) return 'Postgres is a replica or read-only.';
  if (role?.may_update === false) {
    return `The owner has not run \`grant update (last_used_at) on api_keys to ${role.name}\`.`;
  }
  await database.query(sql`
    with used as (
      select api_keys.id, now() - age * interval '1 ms' as at
      from api_keys
      join unnest(${[...ages.keys()]}::bigint[], ${[...ages.values()]}::float8[]) as use (id, age)
        using (id)
      where last_used_at is null or last_used_at <= now() - (age + 60000) * interval '1 ms'
      for no key update of api_keys skip locked
    )
    update api_keys set last_used_at = used.at from used where api_keys.id = used.id`);
  return null;
}
