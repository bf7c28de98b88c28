import type pg from 'pg';
import sql from 'sql-template-tag';
import {
  type CaptureFacts,
  type CaptureProblem,
  captureFacts,
  captureFingerprint,
  captureProblem,
} from '../../src/postgres/capture/capture.ts';
import {
  claimedInstant,
  isMapped,
  laggingInstant,
} from '../../src/postgres/connection/claimed-instant.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { databaseIdentity, timeline } from '../../src/postgres/connection/source-identity.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { CaptureError } from '../describe-failure.ts';
import type { MappedOrganizations, SourceSnapshot } from './watermark.ts';

/** Columns of one row: the snapshot of the statement, its instant, and the state of capture. */
export const snapshotColumns = `pg_current_snapshot()::text as snapshot,
      ${claimedInstant} as "asOf",
      ${laggingInstant} as "mappedAsOf",
      ${microsecondsOf('transaction_timestamp()')} as now,
      ${databaseIdentity} as database,
      ${timeline} as timeline,
      ${captureFacts}::text as capture`;

export type SnapshotRow = {
  readonly snapshot: string;
  /** The instant that the snapshot may claim. */
  readonly asOf: bigint;
  /** The instant that it may claim for mapped organizations; null if that is `asOf`. */
  readonly mappedAsOf: bigint | null;
  readonly now: bigint;
  readonly database: string;
  readonly timeline: number;
  readonly capture: string | null;
};

/** Facts rarely change: parsing and hashing them took a third of the time of a poll. */
let known: { readonly text: string | null; readonly fingerprint: string } | null = null;

/** Why changes of purchases are not captured; null if they are. */
export const problemOf = ({ capture }: SnapshotRow): CaptureProblem | null =>
  captureProblem(JSON.parse(capture ?? 'null') as CaptureFacts);

/**
 * The organizations that a mapping delays. They are read after the snapshot, which may have fewer of them, and only
 * then: without a mapping, the role needs no right on the tables.
 */
export async function readMapped(
  connection: Pick<Database, 'query'>,
  { mappedAsOf }: SnapshotRow,
): Promise<MappedOrganizations | null> {
  if (mappedAsOf === null) return null;
  const { rows } = await connection.query<{ id: bigint }>(
    sql`select id from organizations where ${isMapped(sql`organizations.id`)}`,
  );
  return { asOf: mappedAsOf, ids: new Set(rows.map(({ id }) => id)) };
}

/** Throws CaptureError if changes of purchases are not captured. */
export function snapshotFrom(
  row: SnapshotRow,
  mapped: MappedOrganizations | null = null,
): SourceSnapshot {
  if (known === null || known.text !== row.capture) {
    const problem = problemOf(row);
    if (problem !== null) throw new CaptureError(problem);
    const facts = JSON.parse(row.capture ?? 'null') as CaptureFacts;
    known = { text: row.capture, fingerprint: captureFingerprint(facts) };
  }
  const { snapshot, asOf, database } = row;
  return { snapshot, asOf, mapped, database, fingerprint: `${row.timeline} ${known.fingerprint}` };
}

/**
 * Takes the snapshot of the REPEATABLE READ transaction that `connection` has just begun.
 * The table is locked before, in the mode of any reader: a snapshot from before the end of
 * TRUNCATE or a rewriting ALTER TABLE sees an empty table. Rejects if the lock is not granted
 * in time, and with CaptureError if changes of purchases are not captured.
 */
export async function takeSnapshot(connection: pg.ClientBase): Promise<SourceSnapshot> {
  // Two statements in one message.
  await connection.query(
    `set local lock_timeout = '5s'; lock table purchases in access share mode`,
  );
  const { rows } = await connection.query<SnapshotRow>({
    name: 'take-snapshot',
    text: `select ${snapshotColumns}`,
  });
  const row = rows[0] as SnapshotRow;
  return snapshotFrom(row, await readMapped(connection, row));
}
