import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { addMembers, addRow } from '../support/rows.ts';
import { addKey, addOrganization } from '../support/shop.ts';

/** An organization with rows of every resource. All its texts contain `mark`. */
export type FullShop = {
  readonly organizationId: bigint;
  readonly secret: string;
  /** Public ids, by resource. */
  readonly ids: Readonly<Record<IdentifiedResource, readonly string[]>>;
  /** The mark and all ids. Responses to other organizations must not contain them. */
  readonly marks: readonly string[];
};

const firstDay = Date.parse('2026-01-01T00:00:00Z');
const paymentStatuses = ['pending', 'paid', 'refunded'];
const platforms = ['shopify', 'bling', 'popup'];

/** Adds the organization, `count` rows of each resource, and two keys. Every text contains `mark`. */
export async function addFullShop(
  database: Database,
  mark: string,
  count: number,
): Promise<FullShop> {
  const organizationId = await addOrganization(database, `${mark} shop`);
  const { id: keyId, secret } = await addKey(database, organizationId, { name: `${mark} key` });
  const numbers: Partial<Record<IdentifiedResource, bigint[]>> = {};
  const add = async (
    resource: IdentifiedResource,
    table: string,
    valuesOf: (index: number) => Record<string, unknown>,
  ) => {
    const ids: bigint[] = [];
    for (let index = 0; index < count; index += 1) {
      const row = { organization_id: organizationId, created_at: instant(index) };
      ids.push(await addRow(database, table, { ...row, ...valuesOf(index) }));
    }
    numbers[resource] = ids;
    return ids;
  };
  const name = `${mark} name`;
  const description = `${mark} description`;
  const updated = (index: number) => ({ updated_at: instant(index + 1) });

  const customerIds = await add('customer', 'customers', (index) => ({
    ...updated(index),
    name,
    email: `${mark}@shop.example`,
    phone: `+55 11 9${String(index).padStart(8, '0')}`,
    source: mark,
    is_subscribed: index % 2 === 0,
    total_spent_in_cents: index * 100,
    total_orders: index,
    first_purchase_date: instant(index),
    last_purchase_date: instant(index + 1),
    identification: mark,
    default_address: { id: '1', street: `${mark} street`, number: '7', city: mark },
    attributes: { [mark]: mark },
  }));
  const segmentIds = await add('segment', 'segments', (index) => ({
    ...updated(index),
    name,
    description,
    customer_count: index,
  }));
  const tagIds = await add('tag', 'tags', () => ({ name, color: '#FF0000' }));
  await add('attribute', 'attributes', (index) => ({
    ...updated(index),
    name,
    type: 'text',
    description,
  }));
  await add('flow', 'flows', (index) => ({
    ...updated(index),
    status: 'active',
    name,
    description,
    trigger_event_type: 'customer_created',
    origin: mark,
    run_count: index,
  }));
  const campaign = (index: number) => ({
    ...updated(index),
    status: 'sent',
    scheduling_type: 'scheduled',
    name,
    scheduled_for: instant(index + 1),
    sent_at: instant(index + 2),
  });
  await add('email_campaign', 'email_campaigns', (index) => ({
    ...campaign(index),
    metrics: { sent: 4, delivered: 3, opened: 2, clicked: 1 },
  }));
  await add('template_campaign', 'template_campaigns', (index) => ({
    ...campaign(index),
    channel: index % 2 === 0 ? 'whatsapp' : 'sms',
    is_official: true,
    recipient_type: 'segment',
    templates: [{ id: '1', order: 0, weight: 100, name, category: 'MARKETING', language: 'pt_BR' }],
    metrics: { recipients: 5, sent: 4, delivered: 3, read: 2, failed: 1 },
  }));
  await add('purchase', 'purchases', (index) => ({
    ...updated(index),
    customer_id: customerIds[index % customerIds.length],
    purchase_value_in_cents: index * 100,
    order_id_on_integration_platform: mark,
    order_number: `${mark} ${index}`,
    platform: platforms[index % platforms.length],
    status: 'open',
    payment_status: paymentStatuses[index % paymentStatuses.length],
    shipping_status: 'shipped',
    currency: 'BRL',
    subtotal_amount_in_cents: index,
    total_amount_in_cents: index,
    discount_in_cents: 0,
    shipping_cost_customer_in_cents: 0,
    coupons: [{ id: '1', code: `${mark} code`, value: 10.5, type: 'percentage' }],
    utm_source: `${mark} source`,
    utm_medium: `${mark} medium`,
    utm_campaign: `${mark} campaign ${index}`,
    utm_content: `${mark} content`,
    utm_term: `${mark} term`,
  }));
  const allCustomers = [segmentIds[0] as bigint, customerIds] as const;
  await addMembers(database, 'segment', organizationId, ...allCustomers);
  await addMembers(database, 'tag', organizationId, tagIds[0] as bigint, customerIds);

  const all = { ...numbers, organization: [organizationId], api_key: [keyId] };
  const ids = Object.fromEntries(
    Object.entries(all).map(([resource, of]) => [
      resource,
      of.map((id) => encodeId(resource as IdentifiedResource, id)),
    ]),
  ) as unknown as FullShop['ids'];
  return { organizationId, secret, ids, marks: [mark, ...Object.values(ids).flat()] };
}

function instant(day: number): string {
  return new Date(firstDay + day * 86_400_000).toISOString();
}
