import type pg from 'pg';
import QueryStream from 'pg-query-stream';
import sql, { raw, type Sql } from 'sql-template-tag';
import { purchaseSelectList } from '../../src/engines/postgres/columns.ts';
import {
  type CaptureFacts,
  captureFacts,
  captureFingerprint,
  captureProblem,
} from '../../src/postgres/capture.ts';
import { microsecondsOf } from '../../src/postgres/instants.ts';
import {
  type Database,
  exactTypes,
  preparedStatement,
  withSnapshot,
} from '../../src/postgres/pool.ts';
import { sourceIdentity, timeline } from '../../src/postgres/source-identity.ts';
import { CaptureError } from '../failure.ts';
import { commitToken, isTokenKnown } from './history-token.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

/** A purchase's row in the order of `purchaseColumns`. */
export type SourceRow = (bigint | string | null)[];

/** Columns of one row: the snapshot of the statement, its instant, and the state of capture. */
export const snapshotColumns = `pg_current_snapshot()::text as snapshot,
      ${microsecondsOf('transaction_timestamp()')} as as_of,
      ${timeline} as timeline,
      ${captureFacts} as capture`;

export type SnapshotRow = {
  readonly snapshot: string;
  readonly as_of: bigint;
  readonly timeline: number;
  readonly capture: CaptureFacts;
};

/** Throws CaptureError if changes of purchases are not captured. */
export function snapshotFrom({
  snapshot,
  as_of: asOf,
  timeline,
  capture,
}: SnapshotRow): Omit<SourceSnapshot, 'source'> {
  const problem = captureProblem(capture);
  if (problem !== null) throw new CaptureError(problem);
  return { snapshot, asOf, fingerprint: `${timeline} ${captureFingerprint(capture)}` };
}

/**
 * Takes the snapshot of the REPEATABLE READ transaction that `connection` has just begun.
 * The table is locked before, in the mode of any reader: a snapshot from before the end of
 * TRUNCATE or a rewriting ALTER TABLE sees an empty table. Rejects if the lock is not granted
 * in time, and with CaptureError if changes of purchases are not captured.
 */
export async function takeSnapshot(
  connection: pg.ClientBase,
  organizationId: bigint,
): Promise<SourceSnapshot> {
  await connection.query(`set local lock_timeout = '5s'`);
  await connection.query('lock table purchases in access share mode');
  const { rows } = await connection.query<SnapshotRow & { source: string | null }>(
    preparedStatement(
      'take-snapshot',
      sql`
    select ${raw(snapshotColumns)},
      (select ${raw(sourceIdentity)} from organizations where id = ${organizationId}) as source`,
    ),
  );
  const row = rows[0] as (typeof rows)[number];
  return { ...snapshotFrom(row), source: row.source ?? 'no organization' };
}

/** Commits a token after the snapshot, so that a watermark may refer to the snapshot. */
export async function confirmSnapshot(
  database: Database,
  organizationId: bigint,
  now: SourceSnapshot,
): Promise<Watermark> {
  return { ...now, organizationId, token: await commitToken(database, organizationId) };
}

/** A condition: the log entry is of a transaction that the snapshot `since` cannot see. */
export const unseenBy = (since: string): Sql =>
  sql`token is null
      and transaction_id >= pg_snapshot_xmin(${since}::pg_snapshot)
      and not pg_visible_in_snapshot(transaction_id, ${since}::pg_snapshot)`;

/** A condition: entries of the organization that `since` cannot see may have been pruned. */
export const isPrunedBeyond = (organizationId: Sql, since: Sql): Sql =>
  sql`exists (
    select from purchase_change_pruning
    where organization_id = ${organizationId} and pruned_below > pg_snapshot_xmin(${since})
  )`;

/**
 * Returns each purchase that changed since the snapshot `since` once, with its present row.
 * The row is null if the purchase was deleted or moved to another organization.
 */
export function streamChanges(
  connection: pg.ClientBase,
  organizationId: bigint,
  since: string,
): AsyncGenerator<{ readonly id: bigint; readonly row: SourceRow | null }> {
  const statement = sql`
    select changed.purchase_id, ${raw(purchaseSelectList)}
    from (
      select distinct purchase_id
      from purchase_changes
      where organization_id = ${organizationId} and ${unseenBy(since)}
    ) as changed
    left join purchases
      on purchases.id = changed.purchase_id and purchases.organization_id = ${organizationId}`;
  return changesFrom(stream(connection, statement));
}

async function* changesFrom(rows: AsyncIterable<SourceRow>) {
  for await (const [changedId, ...row] of rows) {
    yield { id: changedId as bigint, row: row[0] === null ? null : row };
  }
}

/** Whether the change log has all changes since a watermark or since the start of a load. */
export async function canApplyChangesSince(database: Database, since: Watermark): Promise<boolean> {
  return withSnapshot(database, async (source) => {
    const now = await takeSnapshot(source, since.organizationId);
    return (await whyChangesAreNotEnough(source, since, now)) === null;
  });
}

/**
 * The reason why the change log lacks changes since a watermark; null if it has all of them.
 * `now` is the snapshot of `connection`.
 */
export async function whyChangesAreNotEnough(
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

export async function* stream(
  connection: pg.ClientBase,
  statement: Sql,
): AsyncGenerator<SourceRow> {
  yield* connection.query(new RowStream(connection, statement));
}

/**
 * A stream of rows in batches, with bounded memory. QueryStream does not fail if the connection
 * is lost after the last row, or while the cursor is closed: it waits for the server forever.
 */
class RowStream extends QueryStream {
  readonly #connection: pg.ClientBase;
  #isLost = false;

  constructor(connection: pg.ClientBase, { text, values }: Sql) {
    super(text, values, {
      // A row has at most 76 KiB of text: 19 MiB in the cursor, and 19 MiB in the stream.
      batchSize: 256,
      rowMode: 'array',
      types: exactTypes,
    });
    this.#connection = connection;
    connection.once('end', this.#noticeLoss);
  }

  readonly #noticeLoss = () => {
    this.#isLost = true;
    this.destroy(new Error('Connection terminated while rows were read'));
  };

  override _destroy(error: Error, callback: (error: Error) => void): void {
    const connection = this.#connection;
    connection.off('end', this.#noticeLoss);
    if (this.#isLost) {
      callback(error);
      return;
    }
    const finish = () => {
      connection.off('end', finish);
      callback(error);
    };
    connection.once('end', finish);
    super._destroy(error, finish);
  }
}
