import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readIds, readPages } from '../support/paging.ts';
import { addMembers, addRow, withoutForeignKeys } from '../support/rows.ts';
import { createTwoShops, type TwoShops } from '../support/two-shops.ts';

let shops: TwoShops;
const segmentIds: Record<string, bigint> = {};
const customerIds: bigint[] = [];
let foreignCustomer: bigint;

beforeAll(async () => {
  shops = await createTwoShops();
  const { database, organizationId, otherOrganizationId } = shops;
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
  // In no segment.
  await addRow(database.pool, 'customers', { organization_id: organizationId });
  foreignCustomer = await addRow(database.pool, 'customers', {
    organization_id: otherOrganizationId,
  });
  const sul = segmentIds['Região Sul'] as bigint;
  const foreign = segmentIds['Foreign região'] as bigint;
  const everybody = [...customerIds, foreignCustomer];
  await withoutForeignKeys(database.pool, async (connection) => {
    await addMembers(connection, 'segment', organizationId, sul, everybody);
    await addMembers(connection, 'segment', otherOrganizationId, foreign, everybody);
  });
});
afterAll(() => shops.close());

const urlOf = (name: string) => `/v1/segments/${encodeId('segment', segmentIds[name] as bigint)}`;
const customersOf = (name: string) => `${urlOf(name)}/customers`;
const publicIds = (...indexes: number[]) =>
  indexes.map((index) => encodeId('customer', customerIds[index] as bigint));

describe('a segment', () => {
  it('has the fields of the specification', async () => {
    const id = encodeId('segment', segmentIds['Região Sul'] as bigint);
    expect((await shops.api.get(urlOf('Região Sul'), shops.secret)).json()).toStrictEqual({
      object: 'segment',
      id,
      created_at: '2026-01-01T00:00:00.000000Z',
      updated_at: '2026-01-04T00:00:00.000004Z',
      html_url: `https://app.example/segments/${id}`,
      name: 'Região Sul',
      description: 'Compram\n50% mais',
      customer_count: 4,
    });
    expect((await shops.api.get(urlOf('Empty'), shops.secret)).json()).not.toHaveProperty(
      'description',
    );
  });
});

describe('the search of segments', () => {
  it.each([
    ['regiao', ['Região Sul']],
    ['COMPRAM', ['Região Sul']],
    ['50%', ['Região Sul']],
    ['5%m', []],
    ['sul compram', []],
    ['m', ['Empty', 'Região Sul']],
    ['empty', ['Empty']],
    ['foreign', []],
  ])('looks into name and description: %s', async (text, names) => {
    for (const sort of ['', '&sort=updated']) {
      const url = `/v1/segments?q=${encodeURIComponent(text)}${sort}`;
      const items = (await readPages(shops.api, shops.secret, url, 1)).flat();
      expect(items.map(({ name }) => name)).toEqual(names);
    }
  });

  it('takes 1 to 256 characters', async () => {
    for (const text of ['', 'a'.repeat(257)]) {
      const response = await shops.api.get(`/v1/segments?q=${text}`, shops.secret);
      expect(response.statusCode).toBe(422);
      expect(response.json().error.param).toBe('q');
    }
  });
});

describe('the customers of a segment', () => {
  it('come newest first, or highest spent first, at every page size', async () => {
    for (let limit = 1; limit <= 5; limit += 1) {
      const read = async (query: string) =>
        (await readPages(shops.api, shops.secret, customersOf('Região Sul') + query, limit))
          .flat()
          .map(({ id }) => id);
      expect(await read('')).toEqual(publicIds(3, 2, 1, 0));
      expect(await read('?sort=total_spent')).toEqual(publicIds(1, 3, 2, 0));
    }
  });

  it('have the shape of the customer list', async () => {
    const [inSegment] = (
      await shops.api.get(`${customersOf('Região Sul')}?limit=1`, shops.secret)
    ).json().data;
    const inList = (
      await shops.api.get('/v1/customers?created_until=2026-02-04T00:00:00Z&limit=1', shops.secret)
    ).json().data[0];
    expect(inSegment).toStrictEqual(inList);
  });

  it('are none of an empty segment', async () => {
    const response = await shops.api.get(customersOf('Empty'), shops.secret);
    expect(response.json()).toStrictEqual({ data: [], has_more: false });
    expect(response.headers).not.toHaveProperty('etag');
  });

  it('are not found where the segment is unknown or foreign', async () => {
    const unknown = `/v1/segments/${encodeId('segment', 999_999n)}/customers`;
    for (const url of [unknown, customersOf('Foreign região')]) {
      const response = await shops.api.get(url, shops.secret);
      expect(response.statusCode).toBe(404);
      expect(response.json().error.type).toBe('not_found');
    }
    expect(await readIds(shops.api, shops.otherSecret, customersOf('Foreign região'))).toEqual([
      encodeId('customer', foreignCustomer),
    ]);
  });

  it('follow a cursor that is in the organization, and no other', async () => {
    const url = customersOf('Região Sul');
    const [, second] = publicIds(0, 1);
    expect(await readIds(shops.api, shops.secret, `${url}?starting_after=${second}`)).toEqual(
      publicIds(0),
    );
    const sul = encodeId('segment', segmentIds['Região Sul'] as bigint);
    for (const cursor of [encodeId('customer', foreignCustomer), sul]) {
      const response = await shops.api.get(`${url}?starting_after=${cursor}`, shops.secret);
      expect(response.statusCode).toBe(400);
      expect(response.json().error.param).toBe('starting_after');
    }
  });

  it('take no other parameter', async () => {
    for (const [query, param] of [
      ['sort=updated', 'sort'],
      ['is_subscribed=true', 'is_subscribed'],
      ['limit=0', 'limit'],
    ] as const) {
      const response = await shops.api.get(`${customersOf('Empty')}?${query}`, shops.secret);
      expect(response.statusCode).toBe(422);
      expect(response.json().error.param).toBe(param);
    }
    const badPath = await shops.api.get('/v1/segments/cus_1/customers', shops.secret);
    expect(badPath.statusCode).toBe(422);
    expect(badPath.json().error.param).toBe('segment_id');
  });
});
