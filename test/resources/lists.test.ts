import { describe, expect } from 'vitest';
import { decodeId, encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import { endpoints } from '../http/endpoints.ts';
import { expectRefusal } from '../http/refusal.ts';
import { test as it } from '../support/fixtures.ts';
import { type Item, readIds, readPages } from '../support/paging.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addRow } from '../support/rows.ts';
import { addCustomer } from '../support/shop.ts';

/** The column that each query string of a list sorts by. */
const ordersOf: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  '/customers': {
    '': 'created_at',
    '?sort=updated': 'updated_at',
    '?sort=total_spent': 'total_spent_in_cents',
    '?sort=updated&is_subscribed=false': 'updated_at',
    '?sort=total_spent&q=name': 'total_spent_in_cents',
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
  type Row = { id: bigint; created_at: string; updated_at: string; total: number };

  /** Adds items with ties, and with instants that differ by microseconds. */
  async function addItems({ pool }: TestDatabase, organization_id: bigint): Promise<Row[]> {
    const rows: Row[] = [];
    for (let index = 0; index < itemCount; index += 1) {
      const row = {
        created_at: `2026-03-01T10:00:00.00000${index % 3}Z`,
        updated_at: `2026-03-02T10:00:00.00000${(index * 5) % 4}Z`,
        total: [0, 10, 10, 9_007_199_254_740_992, 0, 10, 9][index] as number,
      };
      const { created_at, updated_at, total: total_spent_in_cents } = row;
      const values = {
        ...{ organization_id, created_at, name: `A name ${index}` },
        ...(table === 'tags' ? {} : { updated_at }),
        ...(table === 'customers' ? { total_spent_in_cents } : {}),
      };
      rows.push({ id: await addRow(pool, table, values), ...row });
    }
    return rows;
  }

  let rows: Row[];
  let foreignId: string;
  it.beforeAll(async ({ database, shop, otherShop }) => {
    rows = await addItems(database, shop.organizationId);
    const { organizationId: organization_id } = otherShop;
    const foreign = { organization_id, name: 'A foreign name' };
    foreignId = encodeId(resource, await addRow(database.pool, table, foreign));
  });

  const idsBy = (column: string, of: readonly Row[]): string[] => {
    const keyOf = (row: Row) =>
      column === 'total_spent_in_cents' ? row.total : row[column as 'created_at'];
    return [...of]
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
        expect(pages.flat().map(({ id }) => id)).toEqual(idsBy(column, rows));
        expect(pages).toHaveLength(Math.ceil(itemCount / limit));
      }
    },
  );

  const moves = ['up', 'down', 'away'] as const;
  it.for(Object.entries(orders).flatMap((order) => moves.map((move) => [...order, move] as const)))(
    'shows all other items once if the last one of a page moves: "%s" by %s, %s',
    async ([query, column, move], { database, newShop: { organizationId, secret }, api }) => {
      const ids = idsBy(column, await addItems(database, organizationId));
      const shown: string[] = [];
      let next: string | undefined = `${url}${query}${query === '' ? '?' : '&'}limit=3`;
      for (let page = 0; next !== undefined; page += 1) {
        const response: Awaited<ReturnType<typeof api.get>> = await api.get(next, secret);
        expect(response.statusCode, response.body).toBe(200);
        shown.push(...response.json<{ data: Item[] }>().data.map(({ id }) => id));
        const [, link] = /^<([^<>]*)>; rel="next"$/.exec(String(response.headers.link)) ?? [];
        const target: URL | null = link ? new URL(link, `https://api.example${next}`) : null;
        next = target === null ? undefined : target.pathname + target.search;
        if (page > 0) continue;
        const [lowest, highest] =
          column === 'total_spent_in_cents'
            ? ['-5', String(2n ** 60n)]
            : ['1990-01-01', '2090-01-01'];
        await database.pool.query(
          move === 'away'
            ? `delete from ${table} where id = $1`
            : `update ${table} set ${column} = '${move === 'up' ? highest : lowest}' where id = $1`,
          [decodeId(resource, ids[2] as string)],
        );
        if (move !== 'away') continue;
        const after = await api.get(`${url}?starting_after=${ids[2]}`, secret);
        const { error } = expectRefusal(after, 'invalid_request', 'starting_after');
        expect(error.message).toContain('X-Next-Cursor of the previous page');
      }
      expect(shown).toEqual([...ids, ...(move === 'down' ? [ids[2]] : [])]);
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

describe('a cursor with a place', () => {
  it('is refused in another order, and if it is malformed', async ({ api, shop }) => {
    const id = encodeId('customer', 1n);
    const cursors = [`${id}.c1`, `${id}.t1`, `${id}.u`, `${id}.u1.u1`, `${id}.x1`, `${id}.`];
    for (const cursor of [
      ...cursors,
      `${id}.u9223372036854775807`,
      `${id}.u-9223372036854775808`,
    ]) {
      const url = `/v1/customers?sort=updated&starting_after=${cursor}`;
      const response = await api.get(url, shop.secret);
      expect([cursor, response.statusCode]).toEqual([cursor, 400]);
      expect(response.json().error).toMatchObject({
        type: 'invalid_request',
        param: 'starting_after',
      });
    }
  });

  it("shows only the organization's rows, whatever the place", async ({
    database: { pool },
    api,
    shop,
    otherShop,
  }) => {
    const own = await addCustomer(pool, shop.organizationId);
    const foreign = await addCustomer(pool, otherShop.organizationId);
    const cursor = `${encodeId('customer', foreign)}.c4102444800000000`;
    const response = await api.get(`/v1/customers?starting_after=${cursor}`, shop.secret);
    const ids = response.json<{ data: Item[] }>().data.map(({ id }) => id);
    expect(ids).toContain(encodeId('customer', own));
    expect(ids).not.toContain(encodeId('customer', foreign));
  });
});
