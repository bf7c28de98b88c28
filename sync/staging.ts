import {
  BIGINT,
  BOOLEAN,
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBType,
  VARCHAR,
} from '@duckdb/node-api';
import { type PurchaseColumnKind, purchaseColumns } from '../src/domain/purchase.ts';

/** A purchase to be written: its row, or null where it is to be removed. */
export type StagedPurchase = {
  readonly id: bigint;
  readonly row: readonly (bigint | string | null)[] | null;
};

const duckdbTypes: Readonly<Record<PurchaseColumnKind, DuckDBType>> = {
  purchase_id: BIGINT,
  customer_id: BIGINT,
  cents: BIGINT,
  instant: BIGINT,
  text: VARCHAR,
  label: VARCHAR,
  coupons: VARCHAR,
};
const types = [BOOLEAN, ...purchaseColumns.map(({ kind }) => duckdbTypes[kind])];
const absent = purchaseColumns.slice(1).map(() => null);

/** What fits into one DuckDB vector. */
export const chunkRows = 2048;

/** Creates, or empties, the table that rows from Postgres wait in; it is private to the connection. */
export async function createStaging(connection: DuckDBConnection): Promise<void> {
  const columns = purchaseColumns.map(({ name, kind }) => `${name} ${duckdbTypes[kind]}`);
  await connection.run(
    `create or replace temp table staging (present boolean not null, ${columns.join(', ')})`,
  );
}

/**
 * Fills the staging table and returns how many purchases came. Rejects with the
 * signal's reason once it is aborted.
 */
export async function stage(
  connection: DuckDBConnection,
  purchases: AsyncIterable<StagedPurchase>,
  signal: AbortSignal,
): Promise<number> {
  const appender = await connection.createAppender('staging', 'main', 'temp');
  let count = 0;
  let rows: (bigint | string | boolean | null)[][] = [];
  const flush = () => {
    signal.throwIfAborted();
    if (rows.length === 0) return;
    const chunk = DuckDBDataChunk.create(types, rows.length);
    chunk.setRows(rows);
    appender.appendDataChunk(chunk);
    rows = [];
  };
  try {
    for await (const { id, row } of purchases) {
      rows.push(row === null ? [false, id, ...absent] : [true, ...row]);
      count += 1;
      if (rows.length === chunkRows) flush();
    }
    flush();
  } finally {
    appender.closeSync();
  }
  return count;
}

/** Gives back the memory that the staged rows take. */
export async function dropStaging(connection: DuckDBConnection): Promise<void> {
  await connection.run('drop table if exists staging');
}
