import { type AsOf, type PurchasePage, UnknownCursorError } from '../domain/purchase-engine.ts';
import { invalidCursor } from '../http/parameters.ts';
import { listOf } from '../http/wire.ts';
import { purchaseOnTheWire, purchaseSchema } from './purchase-wire.ts';

export const purchaseListSchema = listOf(purchaseSchema);

export async function purchaseList(asking: Promise<AsOf<PurchasePage>>) {
  const { answer, asOf } = await asking.catch((error: unknown) => {
    throw error instanceof UnknownCursorError ? invalidCursor() : error;
  });
  return {
    answer: { data: answer.purchases.map(purchaseOnTheWire), has_more: answer.hasMore },
    asOf,
  };
}
