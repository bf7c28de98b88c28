import type { Format } from '../http/formats/format.ts';
import type { TableBatch } from '../http/formats/table.ts';
import { purchaseTable } from '../resources/purchase-table.ts';

/**
 * Rows of `purchaseTable` in a format; nothing of it before the first of them could be read.
 */
export async function* writtenIn(
  format: Format,
  batches: AsyncIterable<TableBatch>,
): AsyncGenerator<Uint8Array, void> {
  const writer = format.writer(purchaseTable);
  let beginning: Uint8Array | null = writer.begin();
  for await (const batch of batches) {
    if (beginning !== null) yield beginning;
    beginning = null;
    yield writer.write(batch);
  }
  if (beginning !== null) yield beginning;
  yield writer.end();
}
