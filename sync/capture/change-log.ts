import sql, { raw } from 'sql-template-tag';
import {
  type Connection,
  type Database,
  inTransaction,
  preparedStatement,
  withConnection,
} from '../../src/postgres/connection/pool.ts';
import type { Shard } from '../../src/purchase-store/ticks/shard.ts';
import { changesSince } from './changed-purchases.ts';
import { isTokenKnown } from './history-token.ts';
import { isPrunedBeyond, whyOfOtherHistory } from './missing-changes.ts';
import { readMapped, type SnapshotRow, snapshotColumns, snapshotFrom } from './snapshot.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

type Poll = SourceSnapshot & {
  /** The change log has changes since the watermark, or lacks some of them. */
  readonly isTickDue: boolean;
  /** Differs after organizations were created or deleted; null if that was not asked for. */
  readonly organizations: string | null;
  /** The instant of the poll. */
  readonly now: bigint;
};

/**
 * Polls the change log in one statement, which has one snapshot. Rejects with CaptureError if
 * changes are not captured.
 */
export async function pollChangeLog(
  database: Database,
  since: Watermark,
  { number, of }: Shard,
  withOrganizations: boolean,
): Promise<Poll> {
  const { rows } = await database.query<
    SnapshotRow & { is_changed: boolean; organizations: string | null }
  >(
    preparedStatement(
      'poll-change-log',
      sql`
    select ${raw(snapshotColumns)},
      exists (
        select from ${changesSince(since.snapshot)} as changes
        where organization_id % ${of}::bigint = ${number - 1}::bigint
      )
        or not ${isTokenKnown(sql`${since.token}::uuid`)}
        or ${isPrunedBeyond(sql`${since.snapshot}::pg_snapshot`)} as is_changed,
      case when ${withOrganizations}::boolean then (
        select count(*) || ' ' || coalesce(max(id), 0) || ' ' || coalesce(sum(hashtext(identity::text)), 0)
        from organizations
      ) end as organizations`,
    ),
  );
  const row = rows[0] as (typeof rows)[number];
  const now = snapshotFrom(row, await readMapped(database, row));
  const isTickDue = row.is_changed || whyOfOtherHistory(since, now) !== null;
  return { ...now, isTickDue, organizations: row.organizations, now: row.now };
}

/** The number of changes that the snapshot `since` cannot see, by organization. */
export async function countChanges(
  connection: Connection,
  since: string,
): Promise<Map<bigint, number>> {
  const { rows } = await connection.query<{ organization_id: bigint; count: bigint }>(sql`
    select organization_id, count(*) as count
    from ${changesSince(since)} as changes group by organization_id`);
  return new Map(rows.map(({ organization_id: id, count }) => [id, Number(count)]));
}

/** One statement for millions of entries delays the polls of all organizations. */
const prunedAtOnce = 10_000;

/**
 * Retains the entries that `snapshots` cannot see for this data folder and shard, for a day, and
 * deletes those that no reader retains, in batches. Returns the number of deleted entries.
 */
export async function pruneChangeLog(
  database: Database,
  reader: string,
  snapshots: readonly string[],
  signal?: AbortSignal,
): Promise<number> {
  return withConnection(database, async (connection) => {
    const bound = await recordPruning(connection, reader, snapshots);
    for (let deleted = 0; ; ) {
      signal?.throwIfAborted();
      const { rowCount } = await connection.query(sql`
        delete from purchase_changes where ctid = any (array(
          select ctid from purchase_changes
          where transaction_id < ${bound}::xid8 order by transaction_id limit ${prunedAtOnce}
        ))`);
      deleted += rowCount ?? 0;
      if ((rowCount ?? 0) < prunedAtOnce) return deleted;
    }
  });
}

/** Returns the transaction below which entries may be gone from now on. */
const recordPruning = (
  connection: Connection,
  reader: string,
  snapshots: readonly string[],
): Promise<string | null> =>
  inTransaction(connection, async () => {
    // Readers take turns, so that none is added between reading the bound and recording it.
    await connection.query('lock table purchase_change_readers in share row exclusive mode');
    await connection.query(retain(reader, snapshots));
    const { rows } = await connection.query<{ bound: string | null }>(`
      with bound as (
        select min(retain_from::text::numeric)::text::xid8 as retain_from
        from purchase_change_readers where seen_at > now() - interval '1 day'
      ), recorded as (
        insert into purchase_change_pruning as pruning (pruned_below)
        select retain_from from bound
        on conflict (is_singleton) do update set pruned_below = excluded.pruned_below
          where excluded.pruned_below > pruning.pruned_below
      )
      select retain_from::text as bound from bound`);
    return rows[0]?.bound ?? null;
  });

/** Retains the entries from now on. An earlier limit of the reader stays. */
export async function retainChangeLog(database: Database, reader: string): Promise<void> {
  await database.query(sql`
    insert into purchase_change_readers as reader (name, retain_from)
    values (${reader}, pg_snapshot_xmin(pg_current_snapshot()))
    on conflict (name) do update
      set retain_from = least(reader.retain_from, excluded.retain_from), seen_at = now()`);
}

const retain = (reader: string, snapshots: readonly string[]) => sql`
  insert into purchase_change_readers (name, retain_from)
  select ${reader}, min(pg_snapshot_xmin(snapshot)::text::numeric)::text::xid8
  from unnest(${snapshots}::pg_snapshot[]) as snapshot
  on conflict (name) do update set retain_from = excluded.retain_from, seen_at = now()`;

/**
 * Deletes entries that a restored dump brought from another server. Their transaction ids have
 * not begun on this server.
 */
export async function removeForeignEntries(database: Database): Promise<void> {
  await database.query(`
    with changes as (
      delete from purchase_changes
      where transaction_id >= pg_snapshot_xmax(pg_current_snapshot())
    ), readers as (
      delete from purchase_change_readers
      where retain_from > pg_snapshot_xmax(pg_current_snapshot())
    )
    delete from purchase_change_pruning
    where pruned_below > pg_snapshot_xmax(pg_current_snapshot())`);
}
