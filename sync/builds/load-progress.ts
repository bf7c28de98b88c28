import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import type { PurchasePosition, Watermark } from '../capture/watermark.ts';

/** The progress of a load; written with the rows. */
export type LoadProgress = {
  /** A snapshot from before the first row. Later changes are read after the last row. */
  readonly since: Watermark;
  /** The last row that was read; null before the first row. */
  readonly after: PurchasePosition | null;
  readonly loaded: number;
  /** The number of rows at the start of the load. */
  readonly expected: number;
};

/** Only the worker reads this table of a base. */
const createTable = (catalog: string): string => `
  create or replace table ${catalog}.load_progress (
    layout_version integer, database varchar, fingerprint varchar, token varchar,
    snapshot varchar, as_of timestamp, after_created_at timestamp, after_id bigint,
    loaded bigint, expected bigint
  )`;

/** Null if the file has no load, or another layout. */
export async function readLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
): Promise<LoadProgress | null> {
  // Checking first whether the table exists would read every open file, and block closing them.
  const [row] = await queryRows(
    connection,
    sql`
      select database, fingerprint, token, snapshot, epoch_us(as_of),
        epoch_us(after_created_at), after_id, loaded, expected
      from ${raw(catalog)}.load_progress where layout_version = ${layoutVersion}`,
  );
  if (row === undefined) return null;
  const [database, fingerprint, token, snapshot, asOf] = row as [
    string,
    string,
    string,
    string,
    bigint,
  ];
  const [createdAt, id, loaded, expected] = row.slice(5) as [bigint | null, bigint, bigint, bigint];
  return {
    since: { database, fingerprint, token, snapshot, asOf },
    after: createdAt === null ? null : { createdAt, id },
    loaded: Number(loaded),
    expected: Number(expected),
  };
}

/** Call it within a transaction. */
export async function writeLoadProgress(
  connection: DuckDBConnection,
  catalog: string,
  { since, after, loaded, expected }: LoadProgress,
): Promise<void> {
  await connection.run(createTable(catalog));
  await queryRows(
    connection,
    sql`
      insert into ${raw(catalog)}.load_progress
      values (${layoutVersion}, ${since.database}, ${since.fingerprint}, ${since.token},
        ${since.snapshot}, ${new DuckDBTimestampValue(since.asOf)},
        ${after === null ? null : new DuckDBTimestampValue(after.createdAt)},
        ${after === null ? null : after.id}, ${BigInt(loaded)}, ${BigInt(expected)})`,
  );
}
