import { describe, expect } from 'vitest';
import { encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { endpoints } from '../http/endpoints.ts';
import { test as it } from '../support/fixtures.ts';
import { type Item, readIds, readPages } from '../support/paging.ts';
import { addRow } from '../support/rows.ts';

/** The column that each query string of a list sorts by. */
const ordersOf: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/customers': {
    '': 'created_at',
    '?sort=updated': 'updated_at',
    '?sort=total_spent': 'total_spent_in_cents',
    '?q=name': 'created_at',
  },
  '/segments': { '': 'created_at', '?sort=updated': 'updated_at', '?q=name': 'created_at' },
  '/tags': { '': 'created_at' },
  '/attributes': { '': 'created_at' },
  '/flows': { '': 'updated_at', '?sort=updated': 'updated_at' },
  '/email-campaigns': { '': 'updated_at', '?sort=updated': 'updated_at' },
  '/template-campaigns': { '': 'updated_at', '?sort=updated': 'updated_at' },
};
const lists = Object.entries(ordersOf).map(([path, orders]) => {
  const resource = endpoints.find((endpoint) => endpoint.path === path)?.object;
  return {
    url: `/v1${path}`,
    resource: resource as IdentifiedResource,
    table: path.slice(1).replace('-', '_'),
    orders,
    hasSingle: endpoints.some((endpoint) => endpoint.path === `${path}/{${resource}}`),
  };
});

const itemCount = 7;

describe.each(lists)('$url', ({ url, resource, table, orders, hasSingle }) => {
  const rows: { id: bigint; created_at: string; updated_at: string; total: number }[] = [];
  let foreignId: string;

  it.beforeAll(async ({ database, shop, otherShop }) => {
    const { organizationId } = shop;
    const { organizationId: otherOrganizationId } = otherShop;
    for (let index = 0; index < itemCount; index += 1) {
      // Ties, and instants that differ by microseconds.
      const row = {
        created_at: `2026-03-01T10:00:00.00000${index % 3}Z`,
        updated_at: `2026-03-02T10:00:00.00000${(index * 5) % 4}Z`,
        total: [0, 10, 10, 9_007_199_254_740_992, 0, 10, 9][index] as number,
      };
      const { created_at, updated_at } = row;
      const values = {
        organization_id: organizationId,
        created_at,
        ...(table === 'tags' ? {} : { updated_at }),
        ...(table === 'customers' ? { total_spent_in_cents: row.total } : {}),
        name: `A name ${index}`,
      };
      rows.push({ id: await addRow(database.pool, table, values), ...row });
    }
    const foreign = await addRow(database.pool, table, {
      organization_id: otherOrganizationId,
      name: 'A foreign name',
    });
    foreignId = encodeId(resource, foreign);
  });

  const expectedIds = (column: string): string[] => {
    const keyOf = (row: (typeof rows)[number]) =>
      column === 'total_spent_in_cents' ? row.total : row[column as 'created_at'];
    return [...rows]
      .sort((left, right) => {
        const [leftKey, rightKey] = [keyOf(left), keyOf(right)];
        if (leftKey !== rightKey) return leftKey < rightKey ? 1 : -1;
        return left.id < right.id ? 1 : -1;
      })
      .map(({ id }) => encodeId(resource, id));
  };

  it.for(Object.entries(orders))(
    'visits each item exactly once at every page size, ties included: "%s" by %s',
    async ([query, column], { api, shop }) => {
      for (let limit = 1; limit <= itemCount + 1; limit += 1) {
        const pages = await readPages(api, shop.secret, `${url}${query}`, limit);
        expect(pages.flat().map(({ id }) => id)).toEqual(expectedIds(column));
        expect(pages).toHaveLength(Math.ceil(itemCount / limit));
      }
    },
  );

  it('shows each organization only its own items', async ({ api, otherShop }) => {
    expect(await readIds(api, otherShop.secret, url)).toEqual([foreignId]);
  });

  if (hasSingle) {
    describe('/{id}', () => {
      it('shows each item of the list', async ({ api, shop, get }) => {
        const items = (await readPages(api, shop.secret, url, 100)).flat();
        for (const item of items) {
          const response = await get(`${url}/${item.id}`);
          expect(response.statusCode).toBe(200);
          expect(response.json<Item>()).toMatchObject(item);
        }
      });
    });
  } else {
    it('has no route for a single item', async ({ get }) => {
      const id = encodeId(resource, rows[0]?.id as bigint);
      const response = await get(`${url}/${id}`);
      expect(response.statusCode).toBe(400);
      expect(response.json().error.type).toBe('invalid_request');
    });
  }
});
