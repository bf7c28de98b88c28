import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import type { Group, ListShop } from './list-shop.ts';

export type ListQuery = { readonly name: string; readonly url: string };

const orders = {
  created: 'created_at',
  updated: 'updated_at',
  total_spent: 'total_spent_in_cents',
} as const;
type Order = keyof typeof orders;

/** Rare and common texts: letters, signs, one character and several, and many scripts. */
const searches = [
  ...['barros', 'silva', 'maria clara', 'joao.barros', 'joao.silva12@correio.example'],
  ...['barros@', '@correio.example', '.example', '@carta', '+5511', '90000', '12345'],
  ...['zq', 'zz', 'kw', 'si', 'jo', 'a', 'x', 'z', '7'],
  ...['---', 'a%b', '%', '_', '--', '@', '#', '. .', '+55', '(11)', 'a b', 's.c', 'q@'],
  ...['日本語', '日本', '語', '株式会社', '会社 山', '山田 日', 'иван', 'ив', 'ж', '😀'],
];

/** Common and rare totals of customers. Demo data end on 1 January 2026. */
const byTotals: Readonly<Record<string, Record<string, string>>> = {
  'bought twice, not for ninety days': {
    total_orders_min: '2',
    total_orders_max: '2',
    last_purchase_until: '2025-10-03T00:00:00Z',
  },
  'often, not for two years': {
    total_orders_min: '20',
    last_purchase_until: '2024-02-01T00:00:00Z',
  },
  nobody: { total_orders_min: '1000000', is_subscribed: 'true' },
};

const lists = ['segments', 'tags', 'attributes', 'flows', 'email-campaigns', 'template-campaigns'];

/** Every list of the API that Postgres serves: first and deep pages. */
export async function listQueries(database: Database, shop: ListShop): Promise<ListQuery[]> {
  const queries: ListQuery[] = [];
  const add = (name: string, path: string, parameters: Record<string, string> = {}) => {
    const query = new URLSearchParams(parameters).toString();
    queries.push({ name, url: `/v1/${path}${query === '' ? '' : `?${query}`}` });
  };
  const addEachOrder = async (name: string, parameters: Record<string, string>, group?: Group) => {
    for (const order of Object.keys(orders) as Order[]) {
      const sorted = order === 'created' ? parameters : { ...parameters, sort: order };
      add(`${name}, by ${order}`, 'customers', sorted);
      const deep = await deepCustomer(database, shop, order, group);
      add(`${name}, by ${order}, deep`, 'customers', { ...sorted, starting_after: deep });
    }
  };
  for (const path of lists) add(path, path);
  add('segments with q=vip', 'segments', { q: 'vip' });
  add('segments with q=--', 'segments', { q: '--' });
  await addEachOrder('customers', {});
  add('customers, pages of 100', 'customers', { limit: '100' });
  add('email', 'customers', { email: 'nobody@correio.example' });
  add('phone', 'customers', { phone: '+5511900000001' });
  add('phone without its country code', 'customers', { phone: '11900000001' });
  add('subscribed', 'customers', { is_subscribed: 'true' });
  add('not subscribed', 'customers', { is_subscribed: 'false' });
  add('created in a month', 'customers', {
    created_since: '2025-01-01T00:00:00Z',
    created_until: '2025-01-31T00:00:00Z',
  });
  add('updated since', 'customers', { sort: 'updated', updated_since: '2025-06-01T00:00:00Z' });
  for (const [name, parameters] of Object.entries(byTotals)) {
    await addEachOrder(name, parameters);
    for (const { relation, name: group, id } of shop.groups) {
      if (!group.includes('anywhere')) continue;
      add(`${name}, ${group}`, 'customers', {
        ...parameters,
        [`${relation}_id`]: encodeId(relation, id),
      });
    }
  }
  for (const text of searches) await addEachOrder(`q=${text}`, { q: text });
  for (const group of shop.groups) {
    const id = encodeId(group.relation, group.id);
    await addEachOrder(group.name, { [`${group.relation}_id`]: id }, group);
    if (group.relation === 'tag') continue;
    add(`${group.name}, its own list`, `segments/${id}/customers`);
    add(`${group.name}, its own list, by total_spent`, `segments/${id}/customers`, {
      sort: 'total_spent',
    });
  }
  return queries;
}

/** The customer after nine tenths of an order, of the group if there is one. */
async function deepCustomer(
  database: Database,
  shop: ListShop,
  order: Order,
  group?: Group,
): Promise<string> {
  const members = {
    tag: 'select customer_id from customer_tags where tag_id = $2',
    segment: 'select customer_id from segment_customers where segment_id = $2',
    none: 'select id from customers where organization_id = $1 and $2::bigint is null',
  }[group?.relation ?? 'none'];
  const { rows } = await database.query<{ id: bigint }>(
    `with members as (
       select id, ${orders[order]} as key from customers
       where organization_id = $1 and id in (${members}))
     select id from members order by key desc, id desc
     offset (select count(*) * 9 / 10 from members) limit 1`,
    [shop.organizationId, group?.id ?? null],
  );
  return encodeId('customer', (rows[0] as { id: bigint }).id);
}
