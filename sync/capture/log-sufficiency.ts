import type pg from 'pg';
import sql, { type Sql } from 'sql-template-tag';
import { type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { isTokenKnown } from './history-token.ts';
import { takeSnapshot } from './snapshot.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

/** A condition: entries of the organization that `since` cannot see may have been pruned. */
export const isPrunedBeyond = (organizationId: Sql, since: Sql): Sql =>
  sql`exists (
    select from purchase_change_pruning
    where organization_id = ${organizationId} and pruned_below > pg_snapshot_xmin(${since})
  )`;

/** Whether the change log has all changes since a watermark or since the start of a load. */
export async function canApplyChangesSince(database: Database, since: Watermark): Promise<boolean> {
  return withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, since.organizationId);
    return (await whyLogInsufficient(source, since, now)) === null;
  });
}

/**
 * The reason why the change log lacks changes since a watermark; null if it has all of them.
 * `now` is the snapshot of `connection`.
 */
export async function whyLogInsufficient(
  connection: pg.ClientBase,
  watermark: Omit<Watermark, 'asOf'>,
  now: SourceSnapshot,
): Promise<string | null> {
  if (watermark.source !== now.source) {
    return 'this is another database, or another organization has this id';
  }
  if (watermark.fingerprint !== now.fingerprint) {
    return whyFingerprintsDiffer(watermark.fingerprint, now.fingerprint);
  }
  const { organizationId, snapshot, token } = watermark;
  const { rows } = await connection.query<{ is_token_known: boolean; is_pruned: boolean }>(sql`
    select ${isTokenKnown(sql`${token}::uuid`)} as is_token_known,
      ${isPrunedBeyond(sql`${organizationId}`, sql`${snapshot}::pg_snapshot`)} as is_pruned`);
  // Before the token: pruning removes the token too.
  if (rows[0]?.is_pruned !== false) return 'the change log does not reach back far enough';
  if (!rows[0].is_token_known) return 'Postgres, its change log or the data folder was restored';
  return null;
}

/** A fingerprint consists of timeline, table and triggers. */
function whyFingerprintsDiffer(before: string, now: string): string {
  const [[timelineBefore, tableBefore], [timelineNow, tableNow]] = [
    before.split(' '),
    now.split(' '),
  ] as const;
  if (timelineBefore !== timelineNow) return 'Postgres was restored, or a standby was promoted';
  if (tableBefore !== tableNow) return 'the table purchases was replaced or rewritten';
  return 'the triggers that capture changes were changed';
}
