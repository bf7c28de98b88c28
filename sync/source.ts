import type pg from 'pg';
import QueryStream from 'pg-query-stream';
import sql, { raw, type Sql } from 'sql-template-tag';
import { purchaseSelectList } from '../src/engines/postgres/columns.ts';
import { microsecondsOf } from '../src/postgres/instants.ts';
import { type Database, exactTypes } from '../src/postgres/pool.ts';
import {
  systemIdentifierExpression,
  systemIdentifierTables,
} from '../src/postgres/system-identifier.ts';
import { untilDurable } from './durability.ts';
import type { Watermark } from './watermark.ts';

/** A moment of the operational database: everything one transaction sees. */
export type SourceSnapshot = {
  /** `pg_snapshot` as text. */
  readonly snapshot: string;
  /** When it was taken, or a moment before; microseconds since 1970. */
  readonly asOf: bigint;
  /** Which database this is: system identifier, timeline and database. */
  readonly systemIdentifier: string;
};

/** A purchase's row in the order of `purchaseColumns`; null in every place but the id where it is gone. */
export type SourceRow = (bigint | string | null)[];

/**
 * Takes the snapshot of the REPEATABLE READ transaction that `connection` has just
 * begun. The table is locked first, as any reader locks it: a snapshot older than
 * the end of an ALTER TABLE that rewrites, or of a TRUNCATE, would see it empty.
 * Rejects where such a statement takes longer than the lock may be waited for.
 *
 * The snapshot is one that Postgres will never take back: `database` is asked to write
 * to the disk what is not there yet.
 */
export async function takeSnapshot(
  connection: pg.ClientBase,
  database: Database,
): Promise<SourceSnapshot> {
  await connection.query(`set local lock_timeout = '5s'`);
  await connection.query('lock table purchases in access share mode');
  const { rows } = await connection.query<{
    snapshot: string;
    as_of: bigint;
    system_identifier: string;
    log_position: string;
  }>(`
    select pg_current_snapshot()::text as snapshot,
      ${microsecondsOf('transaction_timestamp()')} as as_of,
      ${systemIdentifierExpression} as system_identifier,
      pg_current_wal_insert_lsn()::text as log_position
    from ${systemIdentifierTables}`);
  const row = rows[0];
  if (row === undefined) throw new Error('Postgres did not describe itself');
  await untilDurable(connection, row.log_position, database);
  return { snapshot: row.snapshot, asOf: row.as_of, systemIdentifier: row.system_identifier };
}

/** Log entries of transactions that `since` cannot see. Those of this transaction's snapshot are all that come. */
export const unseenBy = (since: string): Sql =>
  sql`transaction_id >= pg_snapshot_xmin(${since}::pg_snapshot)
      and not pg_visible_in_snapshot(transaction_id, ${since}::pg_snapshot)`;

/** Whether entries of the organization that `since` cannot see may have been pruned. */
export const isPrunedBeyond = (organizationId: Sql, since: Sql): Sql =>
  sql`exists (
    select from purchase_change_pruning
    where organization_id in (0, ${organizationId}) and pruned_below > pg_snapshot_xmin(${since})
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
  watermark: Watermark,
  now: SourceSnapshot,
): Promise<string | null> {
  if (watermark.systemIdentifier !== now.systemIdentifier) {
    return 'this is another database, or was restored from a backup';
  }
  const { organizationId, snapshot } = watermark;
  const reaches = await logReachesBackTo(connection, organizationId, snapshot);
  return reaches ? null : 'the change log does not reach back far enough';
}

/**
 * Whether the log still tells all that happened to the organization since the
 * snapshot `since`: not where it was pruned beyond that, nor after a TRUNCATE.
 */
export async function logReachesBackTo(
  connection: pg.ClientBase,
  organizationId: bigint,
  since: string,
): Promise<boolean> {
  const { rows } = await connection.query<{ reaches: boolean }>(sql`
    -- A later snapshot than the present one: the server was set back.
    select pg_snapshot_xmax(${since}::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot())
      and not ${isPrunedBeyond(sql`${organizationId}`, sql`${since}::pg_snapshot`)}
      and not exists (
        select from purchase_changes where organization_id is null and ${unseenBy(since)}
      ) as reaches`);
  return rows[0]?.reaches === true;
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
