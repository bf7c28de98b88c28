import type { PurchaseBatch } from '../domain/purchase-engine.ts';
import type { Format } from '../http/formats/format.ts';
import { purchaseBatchOnTheWire, purchaseTable } from '../resources/purchase-table.ts';

/** Purchases in a format; nothing of it before the first of them could be read. */
export async function* writtenIn(
  format: Format,
  batches: AsyncIterable<PurchaseBatch>,
): AsyncGenerator<Uint8Array, void> {
  const writer = format.writer(purchaseTable);
  let beginning: Uint8Array | null = writer.begin();
  for await (const batch of batches) {
    const rows = writer.write(purchaseBatchOnTheWire(batch));
    yield beginning === null ? rows : Buffer.concat([beginning, rows]);
    beginning = null;
  }
  const end = writer.end();
  yield beginning === null ? end : Buffer.concat([beginning, end]);
}
