import { type PurchaseColumnKind, purchaseColumns } from '../domain/purchase.ts';
import type { Table, TableColumnKind } from '../http/formats/table.ts';

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
