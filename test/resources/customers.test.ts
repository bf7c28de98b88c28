import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { type Item, readPages } from '../support/paging.ts';
import { addMembers, addRow, withoutForeignKeys } from '../support/rows.ts';

const publicId = (id: bigint) => encodeId('customer', id);

const it = test
  .extend(
    'addCustomer',
    { scope: 'file' },
    ({ database, shop }) =>
      (values: Record<string, unknown>) =>
        addRow(database.pool, 'customers', { organization_id: shop.organizationId, ...values }),
  )
  .extend('getCustomer', ({ get }) => async (id: bigint) => {
    const response = await get(`/v1/customers/${publicId(id)}`);
    expect(response.statusCode, response.body).toBe(200);
    return response.json<Item>();
  });

it('lists the customers of ids, of the organization alone', async ({
  addCustomer,
  database,
  otherShop,
  get,
}) => {
  const [first, second] = [await addCustomer({}), await addCustomer({})];
  const other = await addRow(database.pool, 'customers', {
    organization_id: otherShop.organizationId,
  });
  const list = async (...ids: string[]) => {
    const response = await get(`/v1/customers?ids=${ids.join()}`);
    expect(response.statusCode, response.body).toBe(200);
    return response.json<{ data: Item[] }>().data.map(({ id }) => id);
  };
  const given = [first, other, second].map(publicId);
  expect(await list(...given, 'cus_nobody')).toEqual([second, first].map(publicId));
  expect(await list(publicId(first))).toEqual([publicId(first)]);
});

describe('a customer', () => {
  let id: bigint;
  let tagIds: bigint[];
  const default_address = {
    id: '7',
    street: 'Rua A',
    number: '1',
    city: 'São Paulo',
    state: 'SP',
    country: 'BR',
    zip_code: '01000-000',
    neighborhood: 'Sé',
    complement: 'apto 2',
  };
  /** Shown as they are stored. */
  const fields = {
    updated_at: '2025-01-02T03:04:05.000001Z',
    name: 'Zoë "Z" Ünal\n',
    email: 'Zoe@Example.com',
    phone: '+55 (21) 90074-2803',
    source: 'popup',
    is_subscribed: true,
    is_subscribed_to_email: false,
    total_spent_in_cents: 12_345,
    total_orders: 2,
    last_purchase_date: '1969-12-31T23:59:59.999999Z',
  };
  const inList = () => ({
    ...fields,
    object: 'customer',
    id: publicId(id),
    html_url: `https://app.example/customers/${publicId(id)}`,
    created_at: '2024-01-02T03:04:05.678901Z',
    first_purchase_date: '2024-02-01T00:00:00.000000Z',
  });

  it.beforeAll(async ({ database, shop, otherShop, addCustomer }) => {
    id = await addCustomer({
      ...fields,
      created_at: '2024-01-02T00:04:05.678901-03:00',
      first_purchase_date: '2024-02-01T00:00:00Z',
      identification: '123.456.789-00',
      default_address,
      attributes: { size: 'M', points: 12.5, vip: false, nothing: null, list: [1, null] },
    });
    tagIds = [];
    for (const name of ['vip', null]) {
      const organization_id = shop.organizationId;
      tagIds.push(await addRow(database.pool, 'tags', { organization_id, name }));
    }
    for (const tagId of tagIds) {
      await addMembers(database.pool, 'tag', shop.organizationId, tagId, [id]);
    }
    const foreignTag = await addRow(database.pool, 'tags', {
      organization_id: otherShop.organizationId,
      name: 'foreign',
    });
    await withoutForeignKeys(database.pool, (connection) =>
      addMembers(connection, 'tag', shop.organizationId, foreignTag, [id]),
    );
  });

  it('has exactly the fields of the list shape in lists', async ({ api, shop }) => {
    const items = (await readPages(api, shop.secret, '/v1/customers', 100)).flat();
    expect(items.find((item) => item.id === publicId(id))).toStrictEqual(inList());
  });

  it('also has tags, attributes, identification and address in a single response', async ({
    getCustomer,
  }) => {
    expect(await getCustomer(id)).toStrictEqual({
      ...inList(),
      // Only tags of the organization. A tag may have no name.
      tags: [
        { id: encodeId('tag', tagIds[0] as bigint), name: 'vip' },
        { id: encodeId('tag', tagIds[1] as bigint) },
      ],
      attributes: { size: 'M', points: 12.5, vip: false, list: [1, null] },
      identification: '123.456.789-00',
      default_address,
    });
  });

  it('omits fields without a value', async ({ addCustomer, getCustomer }) => {
    const bare = await addCustomer({
      created_at: '2024-01-02T03:04:05Z',
      updated_at: '2024-01-02T03:04:05Z',
    });
    expect(await getCustomer(bare)).toStrictEqual({
      object: 'customer',
      id: publicId(bare),
      created_at: '2024-01-02T03:04:05.000000Z',
      updated_at: '2024-01-02T03:04:05.000000Z',
      html_url: `https://app.example/customers/${publicId(bare)}`,
      is_subscribed: false,
      is_subscribed_to_email: false,
      total_spent_in_cents: 0,
      total_orders: 0,
      tags: [],
    });
  });

  it('shows amounts beyond the range of a double exactly', async ({ get, addCustomer }) => {
    const rich = await addCustomer({ total_spent_in_cents: '9007199254740993' });
    const response = await get(`/v1/customers/${publicId(rich)}`);
    expect(response.body).toContain('"total_spent_in_cents":9007199254740993,');
  });

  it('shows only the documented texts of an address', async ({ addCustomer, getCustomer }) => {
    const odd = await addCustomer({
      default_address: {
        id: 7,
        street: null,
        number: ['1'],
        city: { name: 'x' },
        state: true,
        country: 'BR',
        secret: 'hidden',
        toString: 'hidden',
      },
    });
    expect((await getCustomer(odd)).default_address).toStrictEqual({ id: '7', country: 'BR' });
  });

  it('shows attributes of any name and any JSON value', async ({
    get,
    addCustomer,
    getCustomer,
  }) => {
    const stored =
      '{"__proto__": {"a": 1}, "constructor": "c", "": "empty", "ключ": "é\\u2028", "deep": {"a": [{"b": null}, null]}, "gone": null, "toJSON": 1}';
    const odd = await addCustomer({ attributes: stored });
    const response = await get(`/v1/customers/${publicId(odd)}`);
    const { gone, ...rest } = JSON.parse(stored);
    expect(gone).toBeNull();
    // A null member is omitted; a null of a list keeps its place.
    expect(response.json().attributes).toStrictEqual({ ...rest, deep: { a: [{}, null] } });
    const empty = await addCustomer({ attributes: '{}', default_address: '{}' });
    expect(await getCustomer(empty)).toMatchObject({ attributes: {}, default_address: {} });
  });
});
