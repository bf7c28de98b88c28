import type { ColumnData, PlainValues } from '../domain/column-data.ts';
import { valueAt } from '../domain/column-data.ts';
import { encodeId } from '../domain/public-id.ts';
import { type PurchaseColumnKind, purchaseColumns } from '../domain/purchase.ts';
import type { PurchaseBatch } from '../domain/purchase-engine.ts';
import { writeExactly } from '../http/exact-numbers.ts';
import type { Table, TableBatch, TableColumnKind } from '../http/formats/table.ts';
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

/** An engine's batch as rows of that table: with public ids, and coupons as responses show them. */
export function purchaseBatchOnTheWire({ rowCount, data }: PurchaseBatch): TableBatch {
  const shown = purchaseColumns.map(({ kind }, index) => {
    const values = data[index] as ColumnData;
    const write = written[kind];
    if (write === undefined) return values;
    return Array.from({ length: rowCount }, (_, row) => {
      const value = valueAt(values, row);
      return value === null ? null : write(value as never);
    }) as PlainValues;
  });
  return { rowCount, data: shown };
}

// The same few coupons come again and again.
const couponsRemembered = 10_000;
const coupons = new Map<string, string>();

/** Coupons as JSON text, of their stored JSON. */
export function writeCoupons(stored: string): string {
  const known = coupons.get(stored);
  if (known !== undefined) return known;
  const shown = writeExactly(JSON.stringify(couponsOnTheWire(stored)));
  if (coupons.size >= couponsRemembered) coupons.clear();
  coupons.set(stored, shown);
  return shown;
}

const written: Partial<Readonly<Record<PurchaseColumnKind, (value: never) => string>>> = {
  purchase_id: (id: bigint) => encodeId('purchase', id),
  customer_id: (id: bigint) => encodeId('customer', id),
  coupons: writeCoupons,
};
