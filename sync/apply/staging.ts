import { BOOLEAN, DuckDBDataChunk, type DuckDBValue } from '@duckdb/node-api';
import { isTextColumn, maxPurchaseTextBytes, purchaseColumns } from '../../src/domain/purchase.ts';
import type { SourceRow } from '../capture/row-stream.ts';
import { OversizedRowError } from '../failure.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import { duckdbWriteFactor, requireSpace } from '../files/disk-space.ts';
import { encodedColumns, encodedTypes, encodePurchases } from './encode.ts';

/** A changed purchase: its row, or null if it was deleted. */
export type ChangedPurchase = { readonly id: bigint; readonly row: SourceRow | null };

type Staged = {
  readonly purchases: number;
  /** No purchases follow. */
  readonly isLast: boolean;
};

/** The rows of one DuckDB vector. */
const chunkRows = 2048;
/** Texts that JavaScript holds. A purchase has up to 76 KiB, so `chunkRows` would have 152 MiB. */
const chunkTextBytes = 8 * 2 ** 20;
/** Bytes of a purchase besides its texts. */
const rowBytes = 256;

/**
 * Fills the temp table `staged` with encoded purchases until their texts take `maxTextBytes`.
 * The next call continues with the purchases that follow. Call it within a transaction: it
 * extends the dictionaries. Rejects with the signal's reason if the signal is aborted, and with
 * ENOSPC if the disk lacks space for the rows.
 */
export async function stage(
  { connection, directory, dictionaryKeys }: DeltaFile,
  purchases: AsyncIterator<ChangedPurchase>,
  signal: AbortSignal,
  maxTextBytes = Number.POSITIVE_INFINITY,
): Promise<Staged> {
  const columns = encodedColumns.map(({ name, type }) => `${name} ${type}`);
  await connection.run(
    `create or replace temp table staged (present boolean not null, ${columns.join(', ')})`,
  );
  const appender = await connection.createAppender('staged', 'main', 'temp');
  let count = 0;
  let textBytes = 0;
  let flushedBytes = 0;
  let chunk: ChangedPurchase[] = [];
  const flush = async () => {
    signal.throwIfAborted();
    if (chunk.length === 0) return;
    await requireSpace(directory, duckdbWriteFactor * (textBytes + count * rowBytes));
    const rows = chunk.flatMap(({ row }) => (row === null ? [] : [row]));
    const deleted = chunk.flatMap(({ id, row }) => (row === null ? [[false, id, ...absent]] : []));
    const encoded = await encodePurchases(rows, dictionaryKeys);
    const values: DuckDBValue[][] = [...deleted, ...encoded.map((row) => [true, ...row])];
    const vector = DuckDBDataChunk.create([BOOLEAN, ...encodedTypes], values.length);
    vector.setRows(values);
    appender.appendDataChunk(vector);
    chunk = [];
    flushedBytes = textBytes;
  };
  try {
    while (textBytes < maxTextBytes) {
      const next = await purchases.next();
      if (next.done) {
        await flush();
        return { purchases: count, isLast: true };
      }
      textBytes += textBytesOf(next.value);
      chunk.push(next.value);
      count += 1;
      if (chunk.length === chunkRows || textBytes - flushedBytes >= chunkTextBytes) await flush();
    }
    await flush();
    return { purchases: count, isLast: false };
  } finally {
    appender.closeSync();
  }
}

/** The columns besides the id of a purchase that was deleted. */
const absent = encodedColumns.slice(1).map(() => null);

const textPositions = purchaseColumns.flatMap((column, position) =>
  isTextColumn(column) ? [position] : [],
);

/** The bytes of a purchase's texts. Throws if they exceed `maxPurchaseTextBytes`. */
export function textBytesOf({ row }: ChangedPurchase): number {
  if (row === null) return 0;
  let bytes = 0;
  for (const position of textPositions) {
    const text = row[position];
    if (typeof text === 'string') bytes += Buffer.byteLength(text);
  }
  if (bytes > maxPurchaseTextBytes) throw new OversizedRowError();
  return bytes;
}
