import { describe, expect } from 'vitest';
import { decodeId, encodeId } from '../../src/domain/public-id.ts';
import type { TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { Item } from '../support/paging.ts';
import { addRow } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
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
] as const;

const moves = ['up', 'down', 'away'] as const;
const cases = orders.flatMap((order) => moves.map((move) => [...order, move] as const));

describe('a walk through a list whose cursor row moves', () => {
  it.for(cases)(
    'shows all other rows once: %s, %s by %s, %s',
    async ([table, url, column, move], { database: { pool }, api }) => {
      const organization = await addOrganization(pool);
      const { secret } = await addKey(pool, organization);
      const ids: bigint[] = [];
      for (let index = 0; index < 7; index += 1) {
        const value = column === 'total_spent_in_cents' ? index : `2026-03-0${index + 1}T00:00:00Z`;
        const subscribed = table === 'customers' ? { is_subscribed: true } : {};
        const values = { organization_id: organization, name: `name ${index}`, ...subscribed };
        ids.unshift(await addRow(pool, table, { ...values, [column]: value }));
      }
      const get = async (cursor: string): Promise<Page> =>
        pageOf(await api.get(`${url}limit=3${cursor}`, secret));
      const first = await get('');
      const last = ids[2] as bigint;
      const [lowest, highest] =
        column === 'total_spent_in_cents' ? ['-5', '500'] : ['1990-01-01', '2090-01-01'];
      await pool.query(
        move === 'away'
          ? `delete from ${table} where id = $1`
          : `update ${table} set ${column} = '${move === 'up' ? highest : lowest}' where id = $1`,
        [last],
      );
      const shown = first.data.map(({ id }) => id);
      if (move === 'away') expectUnknown(await api.get(`${url}starting_after=${shown[2]}`, secret));
      for (let page = first; page.next !== undefined; ) {
        page = await get(`&starting_after=${page.next}`);
        shown.push(...page.data.map(({ id }) => id));
      }
      const [prefix] = (shown[0] as string).split('_');
      const expected = [...ids, ...(move === 'down' ? [last] : [])];
      expect(shown.map((id) => id.split('_')[0])).toEqual(expected.map(() => prefix));
      expect(shown.map((id) => decode(id))).toEqual(expected);
    },
  );

  const decode = (id: string): bigint | null => {
    const resources = ['customer', 'segment', 'tag', 'flow', 'email_campaign'] as const;
    for (const resource of [...resources, 'template_campaign'] as const) {
      const decoded = decodeId(resource, id);
      if (decoded !== null) return decoded;
    }
    return null;
  };
});

describe('a walk through purchases whose cursor row moves', () => {
  const sources = ['from files', 'from Postgres'] as const;
  it.for(sources.flatMap((source) => moves.map((move) => [source, move] as const)))(
    'shows all other rows once: %s, %s',
    async ([source, move], { database: { pool }, api, worker }) => {
      const organization = await addOrganization(pool);
      const { secret } = await addKey(pool, organization);
      const customer_id = await addCustomer(pool, organization);
      const ids: string[] = [];
      for (let day = 1; day <= 7; day += 1) {
        const created_at = `2026-03-0${day}T00:00:00.123457Z`;
        const id = await addPurchase(pool, organization, { customer_id, created_at });
        ids.unshift(encodeId('purchase', id));
      }
      const publish = async () => {
        if (source === 'from files') await worker.once([organization]);
      };
      await publish();
      const get = async (url: string): Promise<Page> => pageOf(await api.get(url, secret));
      const first = await get('/v1/purchases?limit=3');
      const last = ids[2] as string;
      await pool.query(
        move === 'away'
          ? 'delete from purchases where id = $1'
          : `update purchases set created_at = '${move === 'up' ? 2090 : 1990}-01-01' where id = $1`,
        [decodeId('purchase', last)],
      );
      await publish();
      if (move === 'away') {
        expectUnknown(await api.get(`/v1/purchases?starting_after=${last}`, secret));
      }
      const rest = await get(`/v1/purchases?limit=9&starting_after=${first.next}`);
      const shown = [...first.data, ...rest.data].map(({ id }) => id);
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
