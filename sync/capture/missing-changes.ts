import sql, { type Sql } from 'sql-template-tag';
import {
  type Connection,
  type Database,
  withSnapshot,
} from '../../src/postgres/connection/pool.ts';
import { confirmSnapshot, isTokenKnown } from './history-token.ts';
import { takeSnapshot } from './snapshot.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

/** A condition: entries that `since` cannot see may have been pruned. */
export const isPrunedBeyond = (since: Sql): Sql =>
  sql`exists (
    select from purchase_change_pruning where pruned_below > pg_snapshot_xmin(${since})
  )`;

/** The change log lacks changes since a watermark. */
export class MissingChangesError extends Error {
  readonly reason: string;
  /** The snapshot in which changes are missing. */
  readonly now: SourceSnapshot;
  constructor(reason: string, now: SourceSnapshot) {
    super(`The change log cannot be read: ${reason}.`);
    this.reason = reason;
    this.now = now;
  }
}

/**
 * Reads Postgres in one snapshot for which the change log has all changes since a watermark, and
 * confirms the snapshot. Rejects with MissingChangesError if it has not.
 */
export async function readSince<Result>(
  database: Database,
  since: Watermark,
  read: (connection: Connection) => Promise<Result>,
): Promise<{ readonly watermark: Watermark; readonly result: Result }> {
  const { now, result } = await withSnapshot(database, async (connection) => {
    const now = await takeSnapshot(connection);
    const reason = await whyMissingIn(connection, since, now);
    if (reason !== null) throw new MissingChangesError(reason, now);
    return { now, result: await read(connection) };
  });
  return { watermark: await confirmSnapshot(database, now), result };
}

/** The reason why the change log lacks changes since a watermark; null if it has all of them. */
export const whyChangesMissing = (database: Database, since: Watermark): Promise<string | null> =>
  withSnapshot(database, async (connection) =>
    whyMissingIn(connection, since, await takeSnapshot(connection)),
  );

/** As `whyChangesMissing`, for the snapshot `now` of `connection`. */
export async function whyMissingIn(
  connection: Connection,
  watermark: Omit<Watermark, 'asOf'>,
  now: SourceSnapshot,
): Promise<string | null> {
  const reason = whyOfOtherHistory(watermark, now);
  if (reason !== null) return reason;
  const { snapshot, token } = watermark;
  const { rows } = await connection.query<{ is_token_known: boolean; is_pruned: boolean }>(sql`
    select ${isTokenKnown(sql`${token || null}::uuid`)} as is_token_known,
      ${isPrunedBeyond(sql`${snapshot}::pg_snapshot`)} as is_pruned`);
  // Checked before the token, because pruning removes the token too.
  if (rows[0]?.is_pruned !== false) return 'the change log does not reach back far enough';
  if (!rows[0].is_token_known) return 'Postgres, its change log or the data folder was restored';
  return null;
}

/** The reason why a snapshot is of another database, or changes since it may not be captured. */
export function whyOfOtherHistory(
  before: Pick<SourceSnapshot, 'database' | 'fingerprint'>,
  now: SourceSnapshot,
): string | null {
  if (before.database !== now.database) return 'this is another database';
  if (before.fingerprint === now.fingerprint) return null;
  return whyFingerprintsDiffer(before.fingerprint, now.fingerprint);
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
