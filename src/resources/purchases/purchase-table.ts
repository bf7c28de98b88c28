import { LRUCache } from 'lru-cache';
import { writeExactly } from '../../domain/exact-numbers.ts';
import { encodeId } from '../../domain/public-id.ts';
import { type Purchase, type PurchaseColumnKind, purchaseColumns } from '../../domain/purchase.ts';
import type { Table, TableBatch, TableColumnKind } from '../../http/formats/table.ts';
import { serializeCoupons } from './purchase-wire.ts';

const kinds: Readonly<Record<PurchaseColumnKind, TableColumnKind>> = {
  purchase_id: 'text',
  customer_id: 'text',
  cents: 'integer',
  instant: 'instant',
  text: 'text',
  label: 'label',
  coupons: 'json',
};

/** The table of purchases, from the definition of a purchase. */
export const purchaseTable: Table = {
  before: { object: 'purchase' },
  columns: purchaseColumns.map(({ name, kind, required }) => ({
    name,
    kind: kinds[kind],
    absent: required ? 'never' : 'left out',
  })),
  after: { attributed_flow_ids: [] },
};

/** Rows of the table, with public ids and serialized coupons. */
export async function* purchaseBatches(
  batches: AsyncIterable<readonly Purchase[]>,
): AsyncGenerator<TableBatch> {
  for await (const purchases of batches) yield asRows(purchases);
}

function asRows(purchases: readonly Purchase[]): TableBatch {
  const data = purchaseColumns.map(({ name, kind }) => {
    const serialize = textSerializers[kind];
    return purchases.map((purchase) => {
      const value = purchase[name];
      return value === null || serialize === undefined ? value : serialize(value as never);
    });
  });
  return { rowCount: purchases.length, data };
}

// Purchases repeat a few coupons.
const couponCache = new LRUCache<string, string>({ max: 10_000 });

/** Converts stored coupons to the JSON text of responses. */
export function writeCoupons(stored: string): string {
  const cached = couponCache.get(stored);
  if (cached !== undefined) return cached;
  const text = writeExactly(JSON.stringify(serializeCoupons(stored)));
  couponCache.set(stored, text);
  return text;
}

/** The text that rows show; other kinds are shown as stored. */
export const textSerializers: Partial<
  Readonly<Record<PurchaseColumnKind, (value: never) => string>>
> = {
  purchase_id: (id: bigint) => encodeId('purchase', id),
  customer_id: (id: bigint) => encodeId('customer', id),
  coupons: writeCoupons,
};
