import { z } from 'zod';
import { formatInstant } from '../../domain/instant.ts';
import { encodeId } from '../../domain/public-id.ts';
import {
  type Purchase,
  type PurchaseColumn,
  type PurchaseColumnKind,
  purchaseColumns,
} from '../../domain/purchase.ts';
import { dateTime, integer, named, publicId } from '../../http/response/wire.ts';
import { listOfObjects } from '../stored-json.ts';

/** Section 2.5. Other stored fields are omitted. */
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

/** Section 2.5, from the definition of a purchase. */
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
type PurchaseResponse = z.output<typeof purchaseSchema>;

const serializers: Readonly<Record<PurchaseColumnKind, (value: never) => unknown>> = {
  purchase_id: (id: bigint) => encodeId('purchase', id),
  customer_id: (id: bigint) => encodeId('customer', id),
  cents: (cents: bigint) => cents,
  instant: formatInstant,
  text: (text: string) => text,
  label: (text: string) => text,
  coupons: coupons.serialize,
};

/** Converts stored coupons to those of responses. */
export const serializeCoupons = coupons.serialize;

const fields = purchaseColumns.map(({ name, kind }) => ({ name, serialize: serializers[kind] }));

/** A purchase of a response, without missing values. */
export function serializePurchase(purchase: Purchase): PurchaseResponse {
  const wire: Record<string, unknown> = { object: 'purchase' };
  for (const { name, serialize } of fields) {
    const value = purchase[name];
    if (value !== null) wire[name] = serialize(value as never);
  }
  // Deprecated, and always empty (section 2.5).
  wire.attributed_flow_ids = [];
  return wire as PurchaseResponse;
}
