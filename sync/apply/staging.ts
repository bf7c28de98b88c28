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

const textPlaces = purchaseColumns.flatMap((column, place) =>
  isTextColumn(column) ? [place] : [],
);

/** The bytes of a purchase's texts. Throws where they are more than can be copied. */
export function textBytesOf({ row }: StagedPurchase): number {
  if (row === null) return 0;
  let bytes = 0;
  for (const place of textPlaces) {
    const text = row[place];
    if (typeof text === 'string') bytes += Buffer.byteLength(text);
  }
  if (bytes > maxPurchaseTextBytes) throw new OversizedRowError();
  return bytes;
}

/**
 * Text that waits in JavaScript for the staging table. A purchase has at most 76 KiB of it,
 * so `chunkRows` purchases would have 152 MiB.
 */
const chunkTextBytes = 8 * 2 ** 20;

export type Staged = {
  readonly purchases: number;
  readonly textBytes: number;
  /** Whether no purchases follow. */
  readonly isLast: boolean;
};

/**
 * Fills the staging table with purchases until their texts take `maxTextBytes`; the next
 * call goes on with those that follow. Rejects with the signal's reason once it is aborted.
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

/** Gives back the memory that the staged rows take. */
export async function dropStaging(connection: DuckDBConnection): Promise<void> {
  await connection.run('drop table if exists staging');
}
