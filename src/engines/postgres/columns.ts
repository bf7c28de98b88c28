import { type PurchaseColumnKind, purchaseColumns } from '../../domain/purchase.ts';

/**
 * Microseconds since 1970 of a timestamptz column, exactly: `extract(epoch …)`
 * alone is a double on Postgres 13. `column` comes from a fixed list.
 */
export function microsecondsOf(column: string): string {
  return (
    `(extract(epoch from date_trunc('second', ${column}))::bigint * 1000000` +
    ` + extract(microseconds from ${column})::bigint % 1000000)`
  );
}

const expressions: Readonly<Record<PurchaseColumnKind, (column: string) => string>> = {
  purchase_id: (column) => column,
  customer_id: (column) => column,
  cents: (column) => column,
  text: (column) => column,
  label: (column) => column,
  instant: microsecondsOf,
  coupons: (column) => `${column}::text`,
};

/** The select list that reads a row in the order and the types of `purchaseColumns`. */
export const purchaseSelectList = purchaseColumns
  .map(({ name, kind }) => expressions[kind](`purchases.${name}`))
  .join(',\n  ');
