import type pg from 'pg';
import sql, { raw } from 'sql-template-tag';
import {
  type CaptureFacts,
  captureFacts,
  captureFingerprint,
  captureProblem,
} from '../../src/postgres/capture.ts';
import { microsecondsOf } from '../../src/postgres/instants.ts';
import { type Database, preparedStatement } from '../../src/postgres/pool.ts';
import { sourceIdentity, timeline } from '../../src/postgres/source-identity.ts';
import { CaptureError } from '../failure.ts';
import { commitToken } from './history-token.ts';
import type { SourceSnapshot, Watermark } from './watermark.ts';

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
