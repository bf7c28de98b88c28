import type { Table, TableBatch } from './table.ts';

/** What is told of a way to write rows, besides JSON. */
export type FormatDescription = {
  /** What `Accept` asks for. */
  readonly mediaType: string;
  /** What `Content-Type` says. */
  readonly contentType: string;
  /** Of a file's name. */
  readonly extension: string;
};

export type Format = FormatDescription & { writer(table: Table): TableWriter };

/** Writes one table: its beginning, any number of batches, its end. */
export type TableWriter = {
  begin(): Uint8Array;
  write(batch: TableBatch): Uint8Array;
  end(): Uint8Array;
};

export const nothing = new Uint8Array(0);

/** A table that is known as a whole. */
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
