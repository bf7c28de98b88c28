import { type PurchaseColumnKind, purchaseColumns } from '../../domain/purchase.ts';
import { microsecondsOf } from './instants.ts';

const expressions: Readonly<Record<PurchaseColumnKind, (column: string) => string>> = {
  purchase_id: (column) => column,
  customer_id: (column) => column,
  cents: (column) => column,
  text: (column) => column,
  label: (column) => column,
  instant: microsecondsOf,
  coupons: (column) => `${column}::text`,
};

/** The columns of a purchase, in the order and with the types of `purchaseColumns`. */
export const purchaseExpressions: readonly string[] = purchaseColumns.map(({ name, kind }) =>
  expressions[kind](`purchases.${name}`),
);

export const purchaseSelectList = purchaseExpressions.join(',\n  ');
