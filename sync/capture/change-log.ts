import sql, { raw } from 'sql-template-tag';
import { type Database, preparedStatement, withConnection } from '../../src/postgres/pool.ts';
import { unseenBy } from './changes.ts';
import { isTokenKnown } from './history-token.ts';
import { type SnapshotRow, snapshotColumns, snapshotFrom } from './snapshot.ts';
import type { Watermark } from './watermark.ts';

/** The result of one poll of the change log. */
export type PollResult = {
  /** The snapshot of the poll; pass it to the next poll. */
  readonly snapshot: string;
  /** The start of the poll's transaction, in microseconds since 1970. */
  readonly asOf: bigint;
  /** Differs after a restart of the server, on another server, and if the log may lack changes. */
  readonly source: string;
  /** Organizations with changes that the previous poll could not see. */
  readonly organizations: readonly bigint[];
  /** Tokens of published generations that the log lacks. */
  readonly lostTokens: ReadonlySet<string>;
};

/**
 * Polls the change log. `since` is the snapshot of the previous poll, and `tokens` are those of
 * the published generations. The result names each organization with entries that `since`
 * cannot see, or whose entries may have been pruned between the polls. Rejects with CaptureError
 * if changes are not captured.
 */
export async function readChangeLog(
  database: Database,
  since: string,
  tokens: readonly string[],
): Promise<PollResult> {
  // One statement has one snapshot for all columns.
  const { rows } = await database.query<
    SnapshotRow & { server: string; log: string; organizations: string[]; lost_tokens: string[] }
  >(
    preparedStatement(
      'poll-change-log',
      sql`
    select ${raw(snapshotColumns)},
      (select system_identifier from pg_control_system()) || ' since '
        || extract(epoch from pg_postmaster_start_time()) as server,
      -- With another file node, entries may have been removed between the polls.
      (select oid || '/' || relfilenode from pg_class where oid = to_regclass('purchase_changes')) as log,
      array(
        select distinct organization_id::text
        from purchase_changes
        where ${unseenBy(since)}
        union
        select organization_id::text
        from purchase_change_pruning
        where pruned_below > pg_snapshot_xmin(${since}::pg_snapshot)
      ) as organizations,
      array(
        select token::text from unnest(${tokens}::uuid[]) as published (token)
        where not ${isTokenKnown(sql`published.token`)}
      ) as lost_tokens`,
    ),
  );
  const row = rows[0] as (typeof rows)[number];
  const { snapshot, asOf, fingerprint } = snapshotFrom(row);
  return {
    snapshot,
    asOf,
    source: `${row.server} ${row.log} ${fingerprint}`,
    organizations: row.organizations.map(BigInt),
    lostTokens: new Set(row.lost_tokens),
  };
}

/** The snapshot before the first poll. */
export async function currentSnapshot(database: Database): Promise<string> {
  const { rows } = await database.query<{ snapshot: string }>(
    'select pg_current_snapshot()::text as snapshot',
  );
  return rows[0]?.snapshot ?? '';
}

/** Retains the organization's entries from now on for this data folder. An earlier limit stays. */
export async function retainChangeLog(
  database: Database,
  dataFolderId: string,
  organizationId: bigint,
): Promise<void> {
  await database.query(sql`
    insert into purchase_change_readers as reader (data_folder_id, organization_id, retain_from)
    values (${dataFolderId}::uuid, ${organizationId}, pg_snapshot_xmin(pg_current_snapshot()))
    on conflict (organization_id, data_folder_id)
      do update set retain_from = least(reader.retain_from, excluded.retain_from), seen_at = now()`);
}

/** Renews the retention of the entries of these organizations, which lasts a day. */
export async function renewRetention(
  database: Database,
  dataFolderId: string,
  organizations: readonly bigint[],
): Promise<void> {
  await database.query(sql`
    update purchase_change_readers set seen_at = now()
    where data_folder_id = ${dataFolderId}::uuid
      and organization_id = any (${organizations.map(String)}::bigint[])
      and seen_at < now() - interval '1 hour'`);
}

/** A snapshot whose later changes a data folder may still read. The token is null before the first commit. */
export type RetainedSnapshot = Pick<Watermark, 'snapshot'> & { readonly token: string | null };

/**
 * Deletes entries that every data folder has applied. `retained` has the snapshots whose later
 * changes this folder may still read. Organizations with a token that the log lacks are skipped:
 * their snapshots belong to another history of the database.
 */
export async function pruneChangeLog(
  database: Database,
  dataFolderId: string,
  retained: ReadonlyMap<bigint, readonly RetainedSnapshot[]>,
): Promise<number> {
  const all = [...retained].flatMap(([id, snapshots]) =>
    snapshots.map(({ snapshot, token }) => ({ id: String(id), snapshot, token })),
  );
  const organizations = all.map(({ id }) => id);
  return withConnection(database, async (connection) => {
    await connection.query('begin');
    try {
      const { rows: known } = await connection.query<{ organization_id: bigint }>(sql`
        insert into purchase_change_readers (data_folder_id, organization_id, retain_from)
        select ${dataFolderId}::uuid, organization_id,
          min(pg_snapshot_xmin(snapshot)::text::numeric)::text::xid8
        from unnest(
          ${organizations}::bigint[],
          ${all.map(({ snapshot }) => snapshot)}::pg_snapshot[],
          ${all.map(({ token }) => token)}::uuid[]
        ) as retained (organization_id, snapshot, token)
        group by organization_id
        having bool_and(retained.token is null or ${isTokenKnown(sql`retained.token`)})
        on conflict (organization_id, data_folder_id)
          do update set retain_from = excluded.retain_from, seen_at = now()
        returning organization_id`);
      const { rowCount } = await connection.query(sql`
        with bounds as (
          select distinct on (organization_id) organization_id, retain_from
          from purchase_change_readers
          where organization_id = any (${known.map(({ organization_id: id }) => String(id))}::bigint[])
            and seen_at > now() - interval '1 day'
          order by organization_id, retain_from
        ), recorded as (
          insert into purchase_change_pruning as pruning (organization_id, pruned_below)
          select organization_id, retain_from from bounds
          on conflict (organization_id) do update set pruned_below = excluded.pruned_below
            where excluded.pruned_below > pruning.pruned_below
        )
        delete from purchase_changes
        using bounds
        where purchase_changes.organization_id = bounds.organization_id
          and purchase_changes.transaction_id < bounds.retain_from`);
      await connection.query('commit');
      return rowCount ?? 0;
    } catch (error) {
      await connection.query('rollback').catch(() => {});
      throw error;
    }
  });
}

/** Deletes entries of deleted organizations, and records the position as other pruning does. */
export async function pruneDeletedOrganizations(database: Database): Promise<void> {
  await database.query(`
    with deleted as (
      delete from purchase_changes
      where transaction_id < pg_snapshot_xmin(pg_current_snapshot())
        and not exists (select from organizations where id = organization_id)
      returning organization_id
    )
    insert into purchase_change_pruning as pruning (organization_id, pruned_below)
    select distinct organization_id, pg_snapshot_xmin(pg_current_snapshot()) from deleted
    on conflict (organization_id) do update set pruned_below = excluded.pruned_below
      where excluded.pruned_below > pruning.pruned_below`);
  await database.query(`
    delete from purchase_change_readers
    where not exists (select from organizations where id = organization_id)`);
}

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
