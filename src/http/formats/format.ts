import type { Table, TableBatch } from './table.ts';

/** A format of rows other than JSON. */
export type FormatDescription = {
  /** For `Accept`. */
  readonly mediaType: string;
  /** For `Content-Type`. */
  readonly contentType: string;
  /** Of an export's file name. */
  readonly extension: string;
};

export type Format = FormatDescription & { writer(table: Table): TableWriter };

/** Writes one table as a beginning, any number of batches, and an end. */
type TableWriter = {
  begin(): Uint8Array;
  write(batch: TableBatch): Uint8Array;
  end(): Uint8Array;
};

/** Writes a table of one batch. */
export function writeWhole(format: Format, table: Table, batch: TableBatch): Buffer {
  const writer = format.writer(table);
  return Buffer.concat([writer.begin(), writer.write(batch), writer.end()]);
}

/** A table in batches: nothing of it before the first batch could be read. */
export async function* writeBatches(
  format: Format,
  table: Table,
  batches: AsyncIterable<TableBatch>,
): AsyncGenerator<Uint8Array, void> {
  const writer = format.writer(table);
  let beginning: Uint8Array | null = writer.begin();
  for await (const batch of batches) {
    if (beginning !== null) yield beginning;
    beginning = null;
    yield writer.write(batch);
  }
  if (beginning !== null) yield beginning;
  yield writer.end();
}
