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
import { type Database, exactTypes, named } from '../../src/postgres/pool.ts';
import { sourceIdentity, timeline } from '../../src/postgres/source-identity.ts';
import { CaptureError } from '../failure.ts';
import { commitToken, isTokenKnown } from './history-token.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

/** A purchase's row in the order of `purchaseColumns`; null in every place but the id where it is gone. */
export type SourceRow = (bigint | string | null)[];

/**
 * Takes the snapshot of the REPEATABLE READ transaction that `connection` has just
 * begun. The table is locked first, as any reader locks it: a snapshot older than
 * the end of an ALTER TABLE that rewrites, or of a TRUNCATE, would see it empty.
 * Rejects where such a statement takes longer than the lock may be waited for, and with
 * CaptureError where changes of purchases are not captured.
 */
export async function takeSnapshot(
  connection: pg.ClientBase,
  organizationId: bigint,
): Promise<SourceSnapshot> {
  await connection.query(`set local lock_timeout = '5s'`);
  await connection.query('lock table purchases in access share mode');
  const { rows } = await connection.query<{
    snapshot: string;
    as_of: bigint;
    source: string | null;
    timeline: number;
    capture: CaptureFacts;
  }>(
    named(
      'take-snapshot',
      sql`
    select pg_current_snapshot()::text as snapshot,
      ${raw(microsecondsOf('transaction_timestamp()'))} as as_of,
      (select ${raw(sourceIdentity)} from organizations where id = ${organizationId}) as source,
      ${raw(timeline)} as timeline,
      ${raw(captureFacts)} as capture`,
    ),
  );
  const row = rows[0];
  if (row === undefined) throw new Error('Postgres did not describe itself');
  const problem = captureProblem(row.capture);
  if (problem !== null) throw new CaptureError(problem);
  return {
    snapshot: row.snapshot,
    asOf: row.as_of,
    source: row.source ?? 'no organization',
    fingerprint: fingerprintOf(row),
  };
}

export const fingerprintOf = (facts: {
  readonly timeline: number;
  readonly capture: CaptureFacts;
}): string => `${facts.timeline} ${captureFingerprint(facts.capture)}`;

/** Makes a snapshot one that rows in a file may refer to: it is durable and has a token. */
export async function confirmSnapshot(
  database: Database,
  organizationId: bigint,
  now: SourceSnapshot,
): Promise<Watermark> {
  return { ...now, organizationId, token: await commitToken(database, organizationId) };
}

/** Log entries of transactions that `since` cannot see. Those of this transaction's snapshot are all that come. */
export const unseenBy = (since: string): Sql =>
  sql`token is null
      and transaction_id >= pg_snapshot_xmin(${since}::pg_snapshot)
      and not pg_visible_in_snapshot(transaction_id, ${since}::pg_snapshot)`;

/** Whether entries of the organization that `since` cannot see may have been pruned. */
export const isPrunedBeyond = (organizationId: Sql, since: Sql): Sql =>
  sql`exists (
    select from purchase_change_pruning
    where organization_id = ${organizationId} and pruned_below > pg_snapshot_xmin(${since})
  )`;

/**
 * Each purchase that changed since the snapshot `since`, once, as it is now;
 * one that is no longer the organization's comes with its id alone.
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

/**
 * Why the changes since a watermark cannot be told, as words that follow
 * "because"; null where they can. `now` is the snapshot of `connection`.
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
  // First: what was pruned is known by its number, and a restored database lacks both.
  if (rows[0]?.is_pruned !== false) return 'the change log does not reach back far enough';
  if (!rows[0].is_token_known) return 'Postgres, its change log or the data folder was restored';
  return null;
}

/** In the order of their parts: timeline, table, triggers. */
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
 * Rows in batches: memory is bounded however many there are. Unlike its parent it
 * fails when the connection is lost, wherever that is: the cursor ignores it once it has
 * had the last row and waits for the server to be ready, and where it is to be closed
 * it waits for the server to say so.
 */
class RowStream extends QueryStream {
  readonly #connection: pg.ClientBase;
  #isLost = false;

  constructor(connection: pg.ClientBase, { text, values }: Sql) {
    super(text, values, {
      // Of at most 76 KiB of text each: 19 MiB in the cursor, and as much in the stream.
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
