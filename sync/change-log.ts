import sql, { raw } from 'sql-template-tag';
import { microsecondsOf } from '../src/postgres/instants.ts';
import { type Database, withConnection } from '../src/postgres/pool.ts';
import {
  systemIdentifierExpression,
  systemIdentifierTables,
} from '../src/postgres/system-identifier.ts';

/** Which organizations have work waiting, as of one look at the change log. */
export type ChangeLogNews = {
  /** The snapshot of the look; pass it to the next one. */
  readonly snapshot: string;
  /** When it was taken, or a moment before; microseconds since 1970. */
  readonly asOf: bigint;
  /** Differs once the server was started again, or another one has taken its place. */
  readonly server: string;
  readonly organizations: readonly bigint[];
  /** The table was truncated: every organization has work. */
  readonly everyOrganization: boolean;
};

/**
 * Looks for changes that the look before, which took `since`, could not see: whoever has
 * entries of such, and whoever's may have been removed before anybody looked.
 */
export async function readNews(database: Database, since: string): Promise<ChangeLogNews> {
  // One statement, one snapshot: nothing falls between the rows and their watermark.
  const { rows } = await database.query<{
    snapshot: string;
    as_of: bigint;
    server: string;
    organizations: (string | null)[];
  }>(sql`
    select pg_current_snapshot()::text as snapshot,
      ${raw(microsecondsOf('transaction_timestamp()'))} as as_of,
      ${raw(systemIdentifierExpression)} || ' since '
        || extract(epoch from pg_postmaster_start_time()) as server,
      array(
        select distinct organization_id::text
        from purchase_changes
        where transaction_id >= pg_snapshot_xmin(${since}::pg_snapshot)
          and not pg_visible_in_snapshot(transaction_id, ${since}::pg_snapshot)
        union
        select nullif(organization_id, 0)::text
        from purchase_change_pruning
        where pruned_below > pg_snapshot_xmin(${since}::pg_snapshot)
      ) as organizations
    from ${raw(systemIdentifierTables)}`);
  const row = rows[0];
  if (row === undefined) throw new Error('Postgres did not describe itself');
  const { snapshot, as_of: asOf, server, organizations } = row;
  return {
    snapshot,
    asOf,
    server,
    organizations: organizations.filter((id) => id !== null).map(BigInt),
    everyOrganization: organizations.includes(null),
  };
}

/** A position from which readNews tells everything that comes. */
export async function currentSnapshot(database: Database): Promise<string> {
  const { rows } = await database.query<{ snapshot: string }>(
    'select pg_current_snapshot()::text as snapshot',
  );
  return rows[0]?.snapshot ?? '';
}

/**
 * Keeps the organization's entries from now on for this data folder, where it does not
 * keep them from an earlier moment on already.
 */
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

/** Says that the data folder still reads the log of these organizations: for a day others heed it. */
export async function tellOfReading(
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

/**
 * Deletes entries that every data folder has applied. `retained` are the snapshots
 * that this folder may still read from: it will never read behind all of them.
 */
export async function pruneChangeLog(
  database: Database,
  dataFolderId: string,
  retained: ReadonlyMap<bigint, readonly string[]>,
): Promise<number> {
  const pairs = [...retained].flatMap(([id, snapshots]) =>
    snapshots.map((snapshot) => [String(id), snapshot] as const),
  );
  const organizations = pairs.map(([id]) => id);
  const snapshots = pairs.map(([, snapshot]) => snapshot);
  return withConnection(database, async (connection) => {
    await connection.query('begin');
    try {
      await connection.query(sql`
        insert into purchase_change_readers (data_folder_id, organization_id, retain_from)
        select distinct on (organization_id)
          ${dataFolderId}::uuid, organization_id, pg_snapshot_xmin(snapshot)
        from unnest(${organizations}::bigint[], ${snapshots}::pg_snapshot[])
          as retained (organization_id, snapshot)
        order by organization_id, pg_snapshot_xmin(snapshot)
        on conflict (organization_id, data_folder_id)
          do update set retain_from = excluded.retain_from, seen_at = now()`);
      const { rowCount } = await connection.query(sql`
        with bounds as (
          select distinct on (organization_id) organization_id, retain_from
          from purchase_change_readers
          where organization_id = any (${organizations}::bigint[])
            and seen_at > now() - interval '1 day'
          order by organization_id, retain_from
        ), noted as (
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

/**
 * Deletes entries that no organization will read: of organizations that are gone,
 * and of TRUNCATEs that everybody has seen. Notes how far, as any pruning does.
 */
export async function pruneWhatConcernsNobody(database: Database): Promise<void> {
  await database.query(`
    with gone as (
      delete from purchase_changes
      where transaction_id < pg_snapshot_xmin(pg_current_snapshot())
        and organization_id is not null
        and not exists (select from organizations where id = organization_id)
      returning organization_id
    ), truncated as (
      delete from purchase_changes
      where organization_id is null
        and transaction_id < (
          select retain_from from purchase_change_readers
          where seen_at > now() - interval '1 day'
            and exists (select from organizations where id = organization_id)
          order by retain_from limit 1)
      returning transaction_id
    ), noted as (
      select distinct organization_id, pg_snapshot_xmin(pg_current_snapshot()) as pruned_below
      from gone
      union all
      select 0, (max(transaction_id::text::numeric) + 1)::text::xid8
      from truncated having count(*) > 0
    )
    insert into purchase_change_pruning as pruning (organization_id, pruned_below)
    select organization_id, pruned_below from noted
    on conflict (organization_id) do update set pruned_below = excluded.pruned_below
      where excluded.pruned_below > pruning.pruned_below`);
  await database.query(`
    delete from purchase_change_readers
    where not exists (select from organizations where id = organization_id)`);
}

/**
 * Deletes what a dump brought along from another server: nothing that is visible
 * can come from a transaction that has not begun here.
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
