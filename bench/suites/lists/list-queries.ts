import { encodeId } from '../../../src/domain/public-id.ts';
import type { Database } from '../../../src/postgres/pool.ts';
import type { Group, ListShop } from './list-shop.ts';

export type ListQuestion = { readonly name: string; readonly url: string };

const orders = {
  created: 'created_at',
  updated: 'updated_at',
  total_spent: 'total_spent_in_cents',
} as const;
type Order = keyof typeof orders;

/** Rare and common, of letters, signs, one character and several, and in scripts of all kinds. */
const searches = [
  ...['barros', 'silva', 'maria clara', 'joao.barros', 'joao.silva12@correio.example'],
  ...['barros@', '@correio.example', '.example', '@carta', '+5511', '90000', '12345'],
  ...['zq', 'zz', 'kw', 'si', 'jo', 'a', 'x', 'z', '7'],
  ...['---', 'a%b', '%', '_', '--', '@', '#', '. .', '+55', '(11)', 'a b', 's.c', 'q@'],
  ...['日本語', '日本', '語', '株式会社', '会社 山', '山田 日', 'иван', 'ив', 'ж', '😀'],
];

/** Every list of the API that Postgres answers, on its first page and deep inside. */
export async function listQuestions(database: Database, shop: ListShop): Promise<ListQuestion[]> {
  const questions: ListQuestion[] = [];
  const ask = (name: string, path: string, parameters: Record<string, string> = {}) => {
    const query = new URLSearchParams(parameters).toString();
    questions.push({ name, url: `/v1/${path}${query === '' ? '' : `?${query}`}` });
  };
  const everywhere = async (name: string, parameters: Record<string, string>, group?: Group) => {
    for (const order of Object.keys(orders) as Order[]) {
      const sorted = order === 'created' ? parameters : { ...parameters, sort: order };
      ask(`${name}, by ${order}`, 'customers', sorted);
      const deep = await deepCustomer(database, shop, order, group);
      ask(`${name}, by ${order}, deep`, 'customers', { ...sorted, starting_after: deep });
    }
  };
  for (const path of ['segments', 'tags', 'attributes', 'flows', 'email-campaigns'])
    ask(path, path);
  ask('template-campaigns', 'template-campaigns');
  ask('segments with q=vip', 'segments', { q: 'vip' });
  ask('segments with q=--', 'segments', { q: '--' });
  await everywhere('customers', {});
  ask('customers, pages of 100', 'customers', { limit: '100' });
  ask('email', 'customers', { email: 'nobody@correio.example' });
  ask('phone', 'customers', { phone: '+5511900000001' });
  ask('phone without its country code', 'customers', { phone: '11900000001' });
  ask('subscribed', 'customers', { is_subscribed: 'true' });
  ask('not subscribed', 'customers', { is_subscribed: 'false' });
  ask('created in a month', 'customers', {
    created_since: '2025-01-01T00:00:00Z',
    created_until: '2025-01-31T00:00:00Z',
  });
  ask('updated since', 'customers', { sort: 'updated', updated_since: '2025-06-01T00:00:00Z' });
  for (const text of searches) await everywhere(`q=${text}`, { q: text });
  for (const group of shop.groups) {
    const id = encodeId(group.relation, group.id);
    await everywhere(group.name, { [`${group.relation}_id`]: id }, group);
    if (group.relation === 'tag') continue;
    ask(`${group.name}, its own list`, `segments/${id}/customers`);
    ask(`${group.name}, its own list, by total_spent`, `segments/${id}/customers`, {
      sort: 'total_spent',
    });
  }
  return questions;
}

/** A customer nine tenths down that order, of the group where one is given. */
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
