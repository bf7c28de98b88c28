import { z } from 'zod';
import { encodeId } from '../../domain/public-id.ts';
import { publicId } from '../../http/response/wire.ts';
import {
  defineRecord,
  described,
  type Field,
  flag,
  htmlUrl,
  instant,
  integer,
  optional,
  text,
} from '../record/record.ts';
import { freeObject, objectOf } from '../stored-json.ts';

const commonFields = {
  created_at: instant,
  updated_at: instant,
  html_url: htmlUrl('customer'),
  name: optional(text),
  email: optional({
    ...text,
    schema: z.string().meta({ format: 'email' }),
    // An empty text is no address.
    expression: (column) => `nullif(${column}, '')`,
  }),
  phone: optional(text),
  source: optional(text),
  is_subscribed: flag,
  is_subscribed_to_email: flag,
  total_spent_in_cents: described(
    integer,
    "The sum of paid purchases in the shop's most frequent currency, unless the shop writes another one.",
  ),
  total_orders: described(integer, 'Paid purchases of all currencies.'),
  first_purchase_date: optional(instant),
  last_purchase_date: optional(instant),
};

type StoredTag = { readonly id: string; readonly name: string | null };

const tagSchema = z.object({ id: publicId('tag'), name: z.string().optional() });
const tags: Field<z.ZodArray<typeof tagSchema>> = {
  schema: z.array(tagSchema),
  kind: 'json',
  // Ids are text, because numbers in JSON are exact only up to 2^53.
  expression: () => `
    (select coalesce(json_agg(json_build_object('id', tags.id::text, 'name', tags.name)
       order by tags.id), '[]')
     from customer_tags
     join tags on tags.id = customer_tags.tag_id
     where customer_tags.customer_id = customers.id
       and tags.organization_id = customers.organization_id)`,
  serialize: (tags: readonly StoredTag[]) =>
    tags.map(({ id, name }) => ({
      id: encodeId('tag', BigInt(id)),
      ...(name === null ? {} : { name }),
    })),
};

/** Section 2.4: a customer in a list. */
export const customer = defineRecord('Customer', 'customer', 'customers', commonFields);

/** Section 2.4: a single customer. */
export const customerInDetail = defineRecord('CustomerInDetail', 'customer', 'customers', {
  ...commonFields,
  tags,
  attributes: optional(freeObject),
  identification: optional(text),
  default_address: optional(
    objectOf({
      id: 'text',
      street: 'text',
      number: 'text',
      city: 'text',
      state: 'text',
      country: 'text',
      zip_code: 'text',
      neighborhood: 'text',
      complement: 'text',
    }),
  ),
});
