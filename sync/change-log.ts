import sql from 'sql-template-tag';
import { type Database, withConnection } from '../src/postgres/pool.ts';

/** Which organizations have work waiting, as of one look at the change log. */
export type ChangeLogNews = {
  /** The snapshot of the look; pass it to the next one. */
  readonly snapshot: string;
  readonly organizations: readonly bigint[];
  /** The table was truncated: every organization has work. */
  readonly everyOrganization: boolean;
};

/** Looks for changes that the look before, which took `since`, could not see. */
export async function readNews(database: Database, since: string): Promise<ChangeLogNews> {
  // One statement, one snapshot: nothing falls between the rows and their watermark.
  const { rows } = await database.query<{ snapshot: string; organizations: (bigint | null)[] }>(sql`
    select pg_current_snapshot()::text as snapshot,
      array(
        select distinct organization_id::text
        from purchase_changes
        where transaction_id >= pg_snapshot_xmin(${since}::pg_snapshot)
          and not pg_visible_in_snapshot(transaction_id, ${since}::pg_snapshot)
      ) as organizations`);
  const { snapshot, organizations } = rows[0] as {
    snapshot: string;
    organizations: (string | null)[];
  };
  return {
    snapshot,
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
 * Deletes entries that every data folder has applied. `watermarks` are the
 * snapshots that this folder has durably applied and will never read behind.
 */
export async function pruneChangeLog(
  database: Database,
  dataFolderId: string,
  watermarks: ReadonlyMap<bigint, string>,
): Promise<number> {
  const organizations = [...watermarks.keys()].map(String);
  const snapshots = [...watermarks.values()];
  return withConnection(database, async (connection) => {
    await connection.query('begin');
    try {
      await connection.query(sql`
        insert into purchase_change_readers (data_folder_id, organization_id, retain_from)
        select ${dataFolderId}::uuid, organization_id, pg_snapshot_xmin(snapshot)
        from unnest(${organizations}::bigint[], ${snapshots}::pg_snapshot[])
          as applied (organization_id, snapshot)
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
