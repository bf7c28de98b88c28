import { describe, expect } from 'vitest';
import { decodeId, encodeId, type IdentifiedResource } from '../../src/domain/public-id.ts';
import type { TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { Item } from '../support/paging.ts';
import { addRow } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

type Page = { readonly data: readonly Item[]; readonly next: string | undefined };

function pageOf(response: Awaited<ReturnType<TestApi['get']>>): Page {
  expect(response.statusCode, response.body).toBe(200);
  const { data, has_more: hasMore } = response.json<{ data: Item[]; has_more: boolean }>();
  const next = response.headers['x-next-cursor'] as string | undefined;
  expect(next !== undefined).toBe(hasMore);
  return { data, next };
}

/** The id of a deleted row is no cursor, and the error names the cursor that is one. */
function expectUnknown(response: Awaited<ReturnType<TestApi['get']>>): void {
  const { error } = expectRefusal(response, 'invalid_request', 'starting_after');
  expect(error.message).toContain('X-Next-Cursor of the previous page');
}

/** The lists, with the table and the column that each sorts by. */
const orders = [
  ['customers', '/v1/customers?', 'created_at'],
  ['customers', '/v1/customers?sort=updated&', 'updated_at'],
  ['customers', '/v1/customers?sort=total_spent&', 'total_spent_in_cents'],
  ['customers', '/v1/customers?sort=updated&is_subscribed=true&', 'updated_at'],
  ['customers', '/v1/customers?sort=total_spent&q=name&', 'total_spent_in_cents'],
  ['segments', '/v1/segments?sort=updated&', 'updated_at'],
  ['tags', '/v1/tags?', 'created_at'],
  ['flows', '/v1/flows?', 'updated_at'],
  ['email_campaigns', '/v1/email-campaigns?sort=updated&', 'updated_at'],
  ['template_campaigns', '/v1/template-campaigns?', 'updated_at'],
  ['purchases', '/v1/purchases?', 'created_at'],
  ['purchases', '/v1/purchases?', 'created_at', 'published'],
] as const;

const moves = ['up', 'down', 'away'] as const;
const cases = orders.flatMap(([table, url, column, isPublished]) =>
  moves.map((move) => ({ table, url, column, move, isPublished })),
);

describe('a walk through a list whose cursor row moves', () => {
  it.for(cases)(
    'shows all other rows once: $table, $url by $column, $move, $isPublished',
    async ({ table, url, column, move, isPublished }, { database: { pool }, api, worker }) => {
      const organization = await addOrganization(pool);
      const { secret } = await addKey(pool, organization);
      const resource = table.slice(0, -1) as IdentifiedResource;
      const purchase = { purchase_value_in_cents: 100, customer_id: 0n };
      if (table === 'purchases') purchase.customer_id = await addCustomer(pool, organization);
      const ids: string[] = [];
      for (let index = 0; index < 7; index += 1) {
        const subscribed = table === 'customers' ? { is_subscribed: true } : {};
        const named = { name: `name ${index}`, ...subscribed };
        const value =
          column === 'total_spent_in_cents' ? index : `2026-03-0${index + 1}T00:00:00.123457Z`;
        const rest = table === 'purchases' ? purchase : named;
        const values = { organization_id: organization, ...rest, [column]: value };
        ids.unshift(encodeId(resource, await addRow(pool, table, values)));
      }
      const publish = async () => {
        if (isPublished) await worker.once([organization]);
      };
      await publish();
      const get = async (cursor: string): Promise<Page> =>
        pageOf(await api.get(`${url}limit=3${cursor}`, secret));
      const first = await get('');
      const last = ids[2] as string;
      const [lowest, highest] =
        column === 'total_spent_in_cents' ? ['-5', '500'] : ['1990-01-01', '2090-01-01'];
      await pool.query(
        move === 'away'
          ? `delete from ${table} where id = $1`
          : `update ${table} set ${column} = '${move === 'up' ? highest : lowest}' where id = $1`,
        [decodeId(resource, last)],
      );
      await publish();
      if (move === 'away') expectUnknown(await api.get(`${url}starting_after=${last}`, secret));
      const shown = first.data.map(({ id }) => id);
      for (let page = first; page.next !== undefined; ) {
        page = await get(`&starting_after=${page.next}`);
        shown.push(...page.data.map(({ id }) => id));
      }
      expect(shown).toEqual([...ids, ...(move === 'down' ? [last] : [])]);
    },
  );
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
    const ids = pageOf(response).data.map(({ id }) => id);
    expect(ids).toContain(encodeId('customer', own));
    expect(ids).not.toContain(encodeId('customer', foreign));
  });
});
