import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import { readIds, readPages } from '../support/paging.ts';
import { addMembers, addRow, withoutForeignKeys } from '../support/rows.ts';

const segmentIds: Record<string, bigint> = {};
const customerIds: bigint[] = [];
let foreignCustomer: bigint;

it.beforeAll(async ({ database, shop, otherShop }) => {
  const { organizationId } = shop;
  const { organizationId: otherOrganizationId } = otherShop;
  const add = async (name: string, values: Record<string, unknown>, organization_id: bigint) => {
    const row = { organization_id, name, ...values };
    segmentIds[name] = await addRow(database.pool, 'segments', row);
  };
  await add(
    'Região Sul',
    {
      created_at: '2026-01-01T00:00:00Z',
      updated_at: '2026-01-04T00:00:00.000004Z',
      description: 'Compram\n50% mais',
      customer_count: 4,
    },
    organizationId,
  );
  await add('Empty', { description: null, created_at: '2026-01-02T00:00:00Z' }, organizationId);
  await add('Foreign região', {}, otherOrganizationId);
  const spent = [10, 30, 10, 20];
  for (const [index, total_spent_in_cents] of spent.entries()) {
    const created_at = `2026-02-0${index + 1}T00:00:00Z`;
    const row = { organization_id: organizationId, created_at, total_spent_in_cents };
    customerIds.push(await addRow(database.pool, 'customers', row));
  }
  // This customer is in no segment.
  await addRow(database.pool, 'customers', { organization_id: organizationId });
  foreignCustomer = await addRow(database.pool, 'customers', {
    organization_id: otherOrganizationId,
  });
  const sul = segmentIds['Região Sul'] as bigint;
  const foreign = segmentIds['Foreign região'] as bigint;
  const allCustomers = [...customerIds, foreignCustomer];
  await withoutForeignKeys(database.pool, async (connection) => {
    await addMembers(connection, 'segment', organizationId, sul, allCustomers);
    await addMembers(connection, 'segment', otherOrganizationId, foreign, allCustomers);
  });
});

const urlOf = (name: string) => `/v1/segments/${encodeId('segment', segmentIds[name] as bigint)}`;
const customersOf = (name: string) => `${urlOf(name)}/customers`;
const publicIds = (...indexes: number[]) =>
  indexes.map((index) => encodeId('customer', customerIds[index] as bigint));

describe('a segment', () => {
  it('has the fields of the specification', async ({ get }) => {
    const id = encodeId('segment', segmentIds['Região Sul'] as bigint);
    expect((await get(urlOf('Região Sul'))).json()).toStrictEqual({
      object: 'segment',
      id,
      created_at: '2026-01-01T00:00:00.000000Z',
      updated_at: '2026-01-04T00:00:00.000004Z',
      html_url: `https://app.example/segments/${id}`,
      name: 'Região Sul',
      description: 'Compram\n50% mais',
      customer_count: 4,
    });
    expect((await get(urlOf('Empty'))).json()).not.toHaveProperty('description');
  });
});

describe('the search of segments', () => {
  it.for([
    ['regiao', ['Região Sul']],
    ['COMPRAM', ['Região Sul']],
    ['50%', ['Região Sul']],
    ['5%m', []],
    ['sul compram', []],
    ['m', ['Empty', 'Região Sul']],
    ['empty', ['Empty']],
    ['foreign', []],
  ] as const)('searches name and description: %s', async ([text, names], { api, shop }) => {
    for (const sort of ['', '&sort=updated']) {
      const url = `/v1/segments?q=${encodeURIComponent(text)}${sort}`;
      const items = (await readPages(api, shop.secret, url, 1)).flat();
      expect(items.map(({ name }) => name)).toEqual(names);
    }
  });
});

describe('the customers of a segment', () => {
  it('come newest first, or highest spent first, at every page size', async ({ api, shop }) => {
    for (let limit = 1; limit <= 5; limit += 1) {
      const read = async (query: string) =>
        (await readPages(api, shop.secret, customersOf('Região Sul') + query, limit))
          .flat()
          .map(({ id }) => id);
      expect(await read('')).toEqual(publicIds(3, 2, 1, 0));
      expect(await read('?sort=total_spent')).toEqual(publicIds(1, 3, 2, 0));
    }
  });

  it('have the shape of the customer list', async ({ get }) => {
    const [inSegment] = (await get(`${customersOf('Região Sul')}?limit=1`)).json().data;
    const inList = (await get('/v1/customers?created_until=2026-02-04T00:00:00Z&limit=1')).json()
      .data[0];
    expect(inSegment).toStrictEqual(inList);
  });

  it('are an empty list for an empty segment', async ({ get }) => {
    const response = await get(customersOf('Empty'));
    expect(response.json()).toStrictEqual({ data: [], has_more: false });
    expect(response.headers).not.toHaveProperty('etag');
  });

  it('are listed for the organization of the segment', async ({ api, otherShop }) => {
    expect(await readIds(api, otherShop.secret, customersOf('Foreign região'))).toEqual([
      encodeId('customer', foreignCustomer),
    ]);
  });
});
