import { type PurchaseRow, purchaseColumns } from '../../src/domain/purchase.ts';
import type { Records } from '../../sync/capture/changed-purchases.ts';

const marks: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
};

/** A value as Postgres writes it in the text format of COPY. */
const field = (value: PurchaseRow[number]): string =>
  value === null ? '\\N' : String(value).replace(/[\\\b\f\n\r\t\v]/g, (each) => marks[each] ?? '');

/** The line of a purchase in a log (src/purchase-store/format/log.ts). */
export const upsertLine = (row: PurchaseRow): string => `u\t${row.map(field).join('\t')}\n`;

export const deleteLine = (id: bigint): string => `d\t${id}\n`;

export const recordsOf = (lines: readonly string[]): Records => ({
  lines: Buffer.from(lines.join('')),
  records: lines.length,
});

/** A row with these values. Other required columns have values of no importance. */
export function purchaseRow(
  values: Partial<Record<(typeof purchaseColumns)[number]['name'], PurchaseRow[number]>>,
): PurchaseRow {
  const required = {
    id: 1n,
    customer_id: 1n,
    purchase_value_in_cents: 100n,
    created_at: 1_700_000_000_000_000n,
    updated_at: 1_700_000_000_000_000n,
  };
  const all: Partial<Record<string, PurchaseRow[number]>> = { ...required, ...values };
  return purchaseColumns.map(({ name }) => all[name] ?? null);
}
