import { LRUCache } from 'lru-cache';
import { encodeId } from '../domain/public-id.ts';
import { type Purchase, type PurchaseColumnKind, purchaseColumns } from '../domain/purchase.ts';
import type { Table, TableBatch, TableColumnKind } from '../http/formats/table.ts';
import { writeExactly } from '../http/response/exact-numbers.ts';
import { couponsOnTheWire } from './purchase-wire.ts';

const kinds: Readonly<Record<PurchaseColumnKind, TableColumnKind>> = {
  purchase_id: 'text',
  customer_id: 'text',
  cents: 'integer',
  instant: 'instant',
  text: 'text',
  label: 'label',
  coupons: 'json',
};

/** Purchases as rows, from the one definition of a purchase. */
export const purchaseTable: Table = {
  before: { object: 'purchase' },
  columns: purchaseColumns.map(({ name, kind, required }) => ({
    name,
    kind: kinds[kind],
    absent: required ? 'never' : 'left out',
  })),
  after: { attributed_flow_ids: [] },
};

/** Purchases as rows of that table: with public ids, and coupons as responses show them. */
export async function* purchaseBatches(
  batches: AsyncIterable<readonly Purchase[]>,
): AsyncGenerator<TableBatch> {
  for await (const purchases of batches) yield asRows(purchases);
}

function asRows(purchases: readonly Purchase[]): TableBatch {
  const data = purchaseColumns.map(({ name, kind }) => {
    const write = written[kind];
    return purchases.map((purchase) => {
      const value = purchase[name];
      return value === null || write === undefined ? value : write(value as never);
    });
  });
  return { rowCount: purchases.length, data };
}

// The same few coupons come again and again.
const coupons = new LRUCache<string, string>({ max: 10_000 });

/** Coupons as JSON text, of their stored JSON. */
export function writeCoupons(stored: string): string {
  const known = coupons.get(stored);
  if (known !== undefined) return known;
  const shown = writeExactly(JSON.stringify(couponsOnTheWire(stored)));
  coupons.set(stored, shown);
  return shown;
}

const written: Partial<Readonly<Record<PurchaseColumnKind, (value: never) => string>>> = {
  purchase_id: (id: bigint) => encodeId('purchase', id),
  customer_id: (id: bigint) => encodeId('customer', id),
  coupons: writeCoupons,
};
