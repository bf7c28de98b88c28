import { z } from 'zod';
import { formatInstant } from '../domain/instant.ts';
import { encodeId } from '../domain/public-id.ts';
import {
  type Purchase,
  type PurchaseColumn,
  type PurchaseColumnKind,
  purchaseColumns,
} from '../domain/purchase.ts';
import { dateTime, integer, named, publicId } from '../http/response/wire.ts';
import { listOfObjects } from './stored-json.ts';

/** Section 2.5: a list of these, whatever else is stored. */
const coupons = listOfObjects({ id: 'text', code: 'text', value: 'number', type: 'text' });

const schemasByKind = {
  purchase_id: publicId('purchase'),
  customer_id: publicId('customer'),
  cents: integer(),
  instant: dateTime(),
  text: z.string(),
  label: z.string(),
  coupons: coupons.schema,
} satisfies Record<PurchaseColumnKind, z.ZodType>;

/** Section 2.5, from the one definition of a purchase. */
export const purchaseSchema = named(
  'Purchase',
  z.object({
    object: z.literal('purchase'),
    ...(Object.fromEntries(
      purchaseColumns.map(({ name, kind, required }) => [
        name,
        required ? schemasByKind[kind] : schemasByKind[kind].optional(),
      ]),
    ) as unknown as PurchaseShape),
    attributed_flow_ids: z.array(z.string()).meta({ deprecated: true }),
  }),
);
type PurchaseShape = {
  [C in PurchaseColumn as C['name']]: C['required'] extends true
    ? (typeof schemasByKind)[C['kind']]
    : z.ZodOptional<(typeof schemasByKind)[C['kind']]>;
};
export type PurchaseOnTheWire = z.output<typeof purchaseSchema>;

const written: Readonly<Record<PurchaseColumnKind, (value: never) => unknown>> = {
  purchase_id: (id: bigint) => encodeId('purchase', id),
  customer_id: (id: bigint) => encodeId('customer', id),
  cents: (cents: bigint) => cents,
  instant: formatInstant,
  text: (text: string) => text,
  label: (text: string) => text,
  coupons: coupons.write,
};

/** Coupons as responses show them, of their stored JSON. */
export const couponsOnTheWire = coupons.write;

const fields = purchaseColumns.map(({ name, kind }) => ({ name, write: written[kind] }));

/** A purchase as responses show it: what has no value is left out. */
export function purchaseOnTheWire(purchase: Purchase): PurchaseOnTheWire {
  const wire: Record<string, unknown> = { object: 'purchase' };
  for (const { name, write } of fields) {
    const value = purchase[name];
    if (value !== null) wire[name] = write(value as never);
  }
  // Deprecated, kept for compatibility, always empty.
  wire.attributed_flow_ids = [];
  return wire as PurchaseOnTheWire;
}
