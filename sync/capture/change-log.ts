import sql, { raw } from 'sql-template-tag';
import { type CaptureFacts, captureFacts, captureProblem } from '../../src/postgres/capture.ts';
import { microsecondsOf } from '../../src/postgres/instants.ts';
import { type Database, named, withConnection } from '../../src/postgres/pool.ts';
import { timeline } from '../../src/postgres/source-identity.ts';
import { CaptureError } from '../failure.ts';
import { isTokenKnown } from './history-token.ts';
import { fingerprintOf, unseenBy } from './source.ts';
import type { Watermark } from './watermark.ts';

/** Which organizations have work waiting, as of one look at the change log. */
export type ChangeLogNews = {
  /** The snapshot of the look; pass it to the next one. */
  readonly snapshot: string;
  /** When it was taken, or a moment before; microseconds since 1970. */
  readonly asOf: bigint;
  /**
   * Differs once the server was started again, another one has taken its place, or something
   * may have happened to purchases that is not in the log.
   */
  readonly source: string;
  readonly organizations: readonly bigint[];
  /** Of the tokens that were asked about, those that the log does not have. */
  readonly lostTokens: ReadonlySet<string>;
};

/**
 * Looks for changes that the look before, which took `since`, could not see: whoever has
 * entries of such, and whoever's may have been removed before anybody looked. `tokens` are
 * those of published generations. Rejects with CaptureError where changes are not captured.
 */
export async function readChangeLog(
  database: Database,
  since: string,
  tokens: readonly string[],
): Promise<ChangeLogNews> {
  // One statement, one snapshot: nothing falls between the rows and their watermark.
  const { rows } = await database.query<{
    snapshot: string;
    as_of: bigint;
    server: string;
    timeline: number;
    capture: CaptureFacts;
    log: string;
    organizations: string[];
    lost_tokens: string[];
  }>(
    named(
      'read-news',
      sql`
    select pg_current_snapshot()::text as snapshot,
      ${raw(microsecondsOf('transaction_timestamp()'))} as as_of,
      (select system_identifier from pg_control_system()) || ' since '
        || extract(epoch from pg_postmaster_start_time()) as server,
      ${raw(timeline)} as timeline,
      ${raw(captureFacts)} as capture,
      -- Another file node: entries may have been removed before anybody looked.
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
        select unnest(${tokens}::uuid[]) except select token from purchase_changes
      )::text[] as lost_tokens`,
    ),
  );
  const row = rows[0];
  if (row === undefined) throw new Error('Postgres did not describe itself');
  const problem = captureProblem(row.capture);
  if (problem !== null) throw new CaptureError(problem);
  const { snapshot, as_of: asOf, server, organizations } = row;
  return {
    snapshot,
    asOf,
    source: `${server} ${row.log} ${fingerprintOf(row)}`,
    organizations: organizations.map(BigInt),
    lostTokens: new Set(row.lost_tokens),
  };
}

/** A position from which readChangeLog tells everything that comes. */
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

/** A snapshot that may still be read from, and its token, if it has one yet. */
export type RetainedSnapshot = Pick<Watermark, 'snapshot'> & { readonly token: string | null };

/**
 * Deletes entries that every data folder has applied. `retained` are the snapshots
 * that this folder may still read from: it will never read behind all of them. An
 * organization one of whose tokens this database does not know is left out: its snapshots
 * are of another history.
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

/** Deletes entries of organizations that are gone. Notes how far, as any pruning does. */
export async function pruneGoneOrganizations(database: Database): Promise<void> {
  await database.query(`
    with gone as (
      delete from purchase_changes
      where transaction_id < pg_snapshot_xmin(pg_current_snapshot())
        and not exists (select from organizations where id = organization_id)
      returning organization_id
    )
    insert into purchase_change_pruning as pruning (organization_id, pruned_below)
    select distinct organization_id, pg_snapshot_xmin(pg_current_snapshot()) from gone
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
