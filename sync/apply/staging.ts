import {
  BIGINT,
  BOOLEAN,
  type DuckDBConnection,
  DuckDBDataChunk,
  type DuckDBType,
  VARCHAR,
} from '@duckdb/node-api';
import {
  isTextColumn,
  maxPurchaseTextBytes,
  type PurchaseColumnKind,
  purchaseColumns,
} from '../../src/domain/purchase.ts';
import { OversizedRowError } from '../failure.ts';

/** A changed purchase: its row, or null if it was deleted. */
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

/** The rows of one DuckDB vector. */
export const chunkRows = 2048;

/** Creates or empties the staging table, a temp table for rows from Postgres. */
export async function createStaging(connection: DuckDBConnection): Promise<void> {
  const columns = purchaseColumns.map(({ name, kind }) => `${name} ${duckdbTypes[kind]}`);
  await connection.run(
    `create or replace temp table staging (present boolean not null, ${columns.join(', ')})`,
  );
}

const textPositions = purchaseColumns.flatMap((column, position) =>
  isTextColumn(column) ? [position] : [],
);

/** The bytes of a purchase's texts. Throws if they exceed `maxPurchaseTextBytes`. */
export function textBytesOf({ row }: StagedPurchase): number {
  if (row === null) return 0;
  let bytes = 0;
  for (const position of textPositions) {
    const text = row[position];
    if (typeof text === 'string') bytes += Buffer.byteLength(text);
  }
  if (bytes > maxPurchaseTextBytes) throw new OversizedRowError();
  return bytes;
}

/**
 * Bytes of text that JavaScript holds before they go to the staging table. A purchase has up
 * to 76 KiB, so `chunkRows` purchases would have 152 MiB.
 */
const chunkTextBytes = 8 * 2 ** 20;

export type Staged = {
  readonly purchases: number;
  readonly textBytes: number;
  /** No purchases follow. */
  readonly isLast: boolean;
};

/**
 * Stages purchases until their texts take `maxTextBytes`. The next call continues with the
 * purchases that follow. Rejects with the signal's reason if the signal is aborted.
 */
export async function stage(
  connection: DuckDBConnection,
  purchases: AsyncIterator<StagedPurchase>,
  signal: AbortSignal,
  maxTextBytes = Number.POSITIVE_INFINITY,
): Promise<Staged> {
  const appender = await connection.createAppender('staging', 'main', 'temp');
  let count = 0;
  let textBytes = 0;
  let flushedBytes = 0;
  let rows: (bigint | string | boolean | null)[][] = [];
  const flush = () => {
    signal.throwIfAborted();
    if (rows.length === 0) return;
    const chunk = DuckDBDataChunk.create(types, rows.length);
    chunk.setRows(rows);
    appender.appendDataChunk(chunk);
    rows = [];
    flushedBytes = textBytes;
  };
  try {
    while (textBytes < maxTextBytes) {
      const next = await purchases.next();
      if (next.done) {
        flush();
        return { purchases: count, textBytes, isLast: true };
      }
      const { id, row } = next.value;
      textBytes += textBytesOf(next.value);
      rows.push(row === null ? [false, id, ...absent] : [true, ...row]);
      count += 1;
      if (rows.length === chunkRows || textBytes - flushedBytes >= chunkTextBytes) flush();
    }
    flush();
    return { purchases: count, textBytes, isLast: false };
  } finally {
    appender.closeSync();
  }
}

/** Frees the memory of the staged rows. */
export async function dropStaging(connection: DuckDBConnection): Promise<void> {
  await connection.run('drop table if exists staging');
}
