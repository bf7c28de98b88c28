import type pg from 'pg';
import sql from 'sql-template-tag';
import type { Database } from '../src/postgres/pool.ts';

/**
 * Waits until Postgres has on its disk whatever it had logged up to a position, in a
 * transaction that is open. Without that a crash may take back what a snapshot has
 * seen: commits that did not wait for the disk, and the numbers of transactions that
 * were rolled back. Those numbers are given again, and to a snapshot of before such a
 * transaction looks like one that it has seen already.
 */
export async function untilDurable(
  connection: pg.ClientBase,
  logPosition: string,
  database: Database,
): Promise<void> {
  while (!(await isDurable(connection, logPosition))) await flush(database);
}

async function isDurable(connection: pg.ClientBase, logPosition: string): Promise<boolean> {
  const { rows } = await connection.query<{ is_durable: boolean }>(
    sql`select pg_current_wal_flush_lsn() >= ${logPosition}::pg_lsn as is_durable`,
  );
  return rows[0]?.is_durable === true;
}

const flushing = new WeakMap<Database, Promise<void>>();

/** A commit that waits for the disk, of nothing; one at a time serves all who wait. */
function flush(database: Database): Promise<void> {
  let flush = flushing.get(database);
  if (flush === undefined) {
    flush = database
      .query(sql`
        select set_config('synchronous_commit', 'local', true),
          pg_logical_emit_message(true, 'crm-data-service', '')`)
      .then(() => {})
      .finally(() => flushing.delete(database));
    flushing.set(database, flush);
  }
  return flush;
}
