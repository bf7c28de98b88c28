import type { z } from 'zod';
import { type AsOf, type PurchasePage, UnknownCursorError } from '../domain/purchase-engine.ts';
import type { AnswerTable } from '../http/formats/table.ts';
import { invalidCursor } from '../http/request/parameters.ts';
import { listOf } from '../http/response/wire.ts';
import { purchaseTable } from './purchase-table.ts';
import { purchaseOnTheWire, purchaseSchema } from './purchase-wire.ts';

export const purchaseListSchema = listOf(purchaseSchema);

/** A list's purchases as rows. */
export const purchaseListTable: AnswerTable<z.output<typeof purchaseListSchema>> = {
  ...purchaseTable,
  read: ({ data, has_more: hasMore }) => ({ rows: data, hasMore }),
};

export async function purchaseList(asking: Promise<AsOf<PurchasePage>>) {
  const { answer, asOf } = await asking.catch((error: unknown) => {
    throw error instanceof UnknownCursorError ? invalidCursor() : error;
  });
  return {
    answer: { data: answer.purchases.map(purchaseOnTheWire), has_more: answer.hasMore },
    asOf,
  };
}
