/**
 * The definition of a purchase (specification, section 2.5). The Postgres column list, the DuckDB
 * layout, the wire schema and the types below derive from it.
 */

export type PurchaseColumnKind =
  /** The id of the row or of its customer: bigint, encoded as a public id in responses. */
  | 'purchase_id'
  | 'customer_id'
  /** Money: bigint, in the smallest unit of the currency (currency.ts). */
  | 'cents'
  /** Bigint microseconds since 1970-01-01T00:00:00Z. */
  | 'instant'
  /** Mostly unique text. */
  | 'text'
  /** Repeating text, stored in a dictionary. Filters and groups use labels. */
  | 'label'
  /** A list of coupons as JSON text. */
  | 'coupons';

type PurchaseColumnDefinition = {
  readonly name: string;
  readonly kind: PurchaseColumnKind;
  readonly required: boolean;
};

export const purchaseColumns = [
  { name: 'id', kind: 'purchase_id', required: true },
  { name: 'customer_id', kind: 'customer_id', required: true },
  { name: 'purchase_value_in_cents', kind: 'cents', required: true },
  { name: 'created_at', kind: 'instant', required: true },
  { name: 'updated_at', kind: 'instant', required: true },
  { name: 'order_id_on_integration_platform', kind: 'text', required: false },
  { name: 'order_number', kind: 'text', required: false },
  { name: 'platform', kind: 'label', required: false },
  { name: 'status', kind: 'label', required: false },
  { name: 'payment_status', kind: 'label', required: false },
  { name: 'shipping_status', kind: 'label', required: false },
  { name: 'currency', kind: 'label', required: false },
  { name: 'subtotal_amount_in_cents', kind: 'cents', required: false },
  { name: 'total_amount_in_cents', kind: 'cents', required: false },
  { name: 'discount_in_cents', kind: 'cents', required: false },
  { name: 'shipping_cost_customer_in_cents', kind: 'cents', required: false },
  { name: 'coupons', kind: 'coupons', required: false },
  { name: 'utm_source', kind: 'label', required: false },
  { name: 'utm_medium', kind: 'label', required: false },
  { name: 'utm_campaign', kind: 'label', required: false },
  { name: 'utm_content', kind: 'label', required: false },
  { name: 'utm_term', kind: 'label', required: false },
] as const satisfies readonly PurchaseColumnDefinition[];

export type PurchaseColumn = (typeof purchaseColumns)[number];
export type PurchaseLabel = Extract<PurchaseColumn, { kind: 'label' }>['name'];

export const purchaseLabels: readonly PurchaseLabel[] = purchaseColumns
  .filter((column) => column.kind === 'label')
  .map((column) => column.name);

type ValueOfKind = {
  purchase_id: bigint;
  customer_id: bigint;
  cents: bigint;
  instant: bigint;
  text: string;
  label: string;
  coupons: string;
};

/** A purchase as engines return it. Null is a missing value. */
export type Purchase = {
  readonly [C in PurchaseColumn as C['name']]: C['required'] extends true
    ? ValueOfKind[C['kind']]
    : ValueOfKind[C['kind']] | null;
};

/** The values of a purchase in the order of `purchaseColumns`. */
export type PurchaseRow = readonly (bigint | string | null)[];

export function purchaseFromRow(row: PurchaseRow): Purchase {
  const purchase: Record<string, bigint | string | null> = {};
  for (let index = 0; index < purchaseColumns.length; index += 1) {
    // biome-ignore lint/style/noNonNullAssertion: the index is within bounds
    purchase[purchaseColumns[index]!.name] = row[index] ?? null;
  }
  return purchase as Purchase;
}

/**
 * The longest text of each kind that Postgres accepts, in bytes of UTF-8. Filters have at most 256
 * characters.
 */
export const maxTextBytes = {
  text: 1024,
  label: 1024,
  coupons: 64 * 1024,
} as const satisfies Partial<Record<PurchaseColumnKind, number>>;

export const isTextColumn = <Column extends { readonly kind: PurchaseColumnKind }>(
  column: Column,
): column is Extract<Column, { kind: keyof typeof maxTextBytes }> => column.kind in maxTextBytes;

/**
 * The longest line of a purchase in the formats of COPY, which may write two bytes for each one of a text.
 * Only rows that were written without the constraints can be longer.
 */
export const maxPurchaseLineBytes = 2 * 8 * 2 ** 20 + 64 * 1024;

/** Section 3. The filter value `any` is no state. */
export const paymentStatuses = [
  'pending',
  'authorized',
  'paid',
  'abandoned',
  'refunded',
  'voided',
] as const;
export type PaymentStatus = (typeof paymentStatuses)[number];

/** Section 4.2: exactly six. */
export const platforms = [
  'shopify',
  'nuvemshop',
  'woocommerce',
  'bling',
  'facebook',
  'popup',
] as const;
export type Platform = (typeof platforms)[number];

export const trackingLabels = [
  'utm_source',
  'utm_medium',
  'utm_campaign',
  'utm_content',
  'utm_term',
] as const satisfies readonly PurchaseLabel[];
