import sql, { raw, type Sql } from 'sql-template-tag';

/**
 * SQL of a table: the entries of a log that the snapshot `since` does not see and the present one does, with their
 * `ctid` as `entry`. The index on `transaction_id` is read for these transactions alone. So a poll reads no entry
 * that was deleted before, which vacuum leaves while any transaction holds a snapshot, and no entry that
 * `since` sees, also while a transaction that began before it still runs.
 *
 * `offset 0` keeps the log inside the join. With two bounds, Postgres uses the index also without statistics.
 */
export const unseenEntries = (log: 'purchase_changes' | 'mapping_changes', since: Sql): Sql => sql`(
      select entries.* from (
        select xip as first, xip as last from pg_snapshot_xip(${since}) as xip
        where not exists (
          select from pg_snapshot_xip(pg_current_snapshot()) as running where running = xip
        )
        union all
        select pg_snapshot_xmax(${since}), pg_snapshot_xmax(pg_current_snapshot())
      ) as transactions
      cross join lateral (
        select ctid as entry, * from ${raw(log)}
        where transaction_id between transactions.first and transactions.last
        offset 0
      ) as entries
    )`;
