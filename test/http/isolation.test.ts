import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { withoutForeignKeys } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { comparable } from './refusal.ts';
import { servings } from './served-shop.ts';

/** The id of no row. */
const unknownId = 999_999_999n;

describe.each(servings)('one organization, %s,', (serving) => {
  let own: Shop;
  let other: Shop;
  it.beforeAll(async ({ database, worker }) => {
    own = await addShop(database, 'mine');
    other = await addShop(database, 'theirs');
    // A purchase of the other organization that references a customer of this one.
    const stray = await withoutForeignKeys(database.pool, (connection) =>
      addPurchase(connection, other.organizationId, {
        ...textFields('theirs'),
        customer_id: own.customerId,
      }),
    );
    other = { ...other, purchaseIds: [...other.purchaseIds, stray] };
    if (serving === 'from published files') await worker.syncAll();
  });

  /** All ids and texts of the other organization. */
  const foreignMarks = () => [
    'theirs',
    encodeId('organization', other.organizationId),
    encodeId('api_key', other.keyId),
    encodeId('customer', other.customerId),
    ...other.purchaseIds.map((id) => encodeId('purchase', id)),
  ];

  function expectNothingForeign(response: LightMyRequestResponse) {
    for (const mark of foreignMarks()) {
      expect(response.body).not.toContain(mark);
      expect(JSON.stringify(response.headers)).not.toContain(mark);
    }
  }

  it('sees only its own data in unfiltered requests', async ({ api }) => {
    for (const shop of [own, other]) {
      const list = (await api.get('/v1/purchases?limit=100', shop.secret)).json();
      expect(list.data.map(({ id }: { id: string }) => id).sort()).toEqual(
        shop.purchaseIds.map((id) => encodeId('purchase', id)).sort(),
      );
      for (const url of ['stats?', 'timeseries?interval=week']) {
        const { purchase_count } = (await api.get(`/v1/purchases/${url}`, shop.secret)).json();
        expect(purchase_count).toBe(shop.purchaseIds.length);
      }
      const { totals } = (await api.get('/v1/purchases/report', shop.secret)).json();
      expect(totals.purchase_count).toBe(shop.purchaseIds.length);
      const { rows } = (await api.get('/v1/purchases/cohorts', shop.secret)).json();
      const counts = rows.flatMap(({ periods }: { periods: { purchase_count: number }[] }) =>
        periods.map(({ purchase_count }) => purchase_count),
      );
      expect(counts.reduce((one: number, count: number) => one + count, 0)).toBe(
        shop.purchaseIds.length,
      );
      const me = (await api.get('/v1/me', shop.secret)).json();
      expect(me.organization.id).toBe(encodeId('organization', shop.organizationId));
    }
    // The stray purchase is not one of its customer.
    const customer = encodeId('customer', own.customerId);
    const list = await api.get(`/v1/customers/${customer}/purchases`, own.secret);
    expect(list.json().data).toHaveLength(own.purchaseIds.length);
    const stats = await api.get(`/v1/purchases/stats?customer_id=${customer}`, own.secret);
    expect(stats.json().purchase_count).toBe(own.purchaseIds.length);
  });

  it('finds no data of another in any response', async ({ api }) => {
    const dimensions = ['status', 'platform', 'currency', 'day', 'utm_source', 'utm_term'];
    for (const url of [
      '/v1/me',
      '/v1/purchases?limit=100',
      ...own.purchaseIds.map((id) => `/v1/purchases/${encodeId('purchase', id)}`),
      `/v1/customers/${encodeId('customer', own.customerId)}/purchases`,
      ...dimensions.map((name) => `/v1/purchases/stats?group_by=${name}&group_limit=50`),
      '/v1/purchases/timeseries?interval=day',
      ...dimensions
        .filter((name) => name !== 'day')
        .map((name) => `/v1/purchases/timeseries?interval=day&group_by=${name}&group_limit=50`),
      ...[...dimensions, 'customer', 'customer_type'].map(
        (name) => `/v1/purchases/report?group_by=${name}`,
      ),
      ...dimensions
        .filter((name) => name !== 'day')
        .map((name) => `/v1/purchases/cohorts?group_by=${name}`),
    ]) {
      const response = await api.get(url, own.secret);
      expect(response.statusCode).toBe(200);
      expectNothingForeign(response);
    }
  });

  const urls = [
    ['purchase', '/v1/purchases/{id}', 404],
    ['purchase', '/v1/purchases?starting_after={id}', 400],
    ['purchase', '/v1/purchases?limit=1&platform=popup&starting_after={id}', 400],
    ['purchase', '/v1/customers/{own}/purchases?starting_after={id}', 400],
    ['customer', '/v1/customers/{id}/purchases', 404],
    ['customer', '/v1/customers/{id}/purchases?limit=1&status=any', 404],
    ['customer', '/v1/purchases?customer_id={id}', 200],
    ['customer', '/v1/purchases/stats?customer_id={id}', 200],
    ['customer', '/v1/purchases/stats?customer_id={id}&group_by=utm_source', 200],
    ['customer', '/v1/purchases/timeseries?interval=day&customer_id={id}', 200],
    ['customer', '/v1/purchases/report?group_by=customer&customer_id={id}', 200],
    ['customer', '/v1/purchases/cohorts?customer_id={id}', 200],
  ] as const;
  it.for(urls)(
    'gets the same with the %s id of another as with an unknown id: %s',
    async ([resource, url, status], { api }) => {
      const get = (id: bigint) => {
        const withOwn = url.replace('{own}', encodeId('customer', own.customerId));
        return api.get(withOwn.replace('{id}', encodeId(resource, id)), own.secret);
      };
      const usual = await get(unknownId);
      expect(usual.statusCode).toBe(status);
      for (const id of resource === 'purchase' ? other.purchaseIds : [other.customerId]) {
        const response = await get(id);
        expect(comparable(response)).toStrictEqual(comparable(usual));
        expectNothingForeign(response);
      }
    },
  );

  it('gets the same with another’s labels as with unknown labels', async ({ api }) => {
    for (const name of ['utm_source', 'utm_medium', 'utm_campaign', 'utm_content', 'utm_term']) {
      const get = (value: string) =>
        api.get(`/v1/purchases/stats?${name}=${value}&group_by=${name}`, own.secret);
      const response = await get('theirs');
      expect(response.json()).toMatchObject({ purchase_count: 0, groups: [] });
      expect(comparable(response)).toStrictEqual(comparable(await get('unknown')));
      expect((await get('mine')).json().purchase_count).toBe(own.purchaseIds.length);
    }
  });

  it('cannot select another by a parameter or a header', async ({ api }) => {
    const organization = encodeId('organization', other.organizationId);
    const named = await api.get(`/v1/purchases?organization_id=${organization}`, own.secret);
    expect(named.statusCode).toBe(422);
    const usual = await api.get('/v1/purchases', own.secret);
    const headers = { organization, 'x-organization-id': organization, 'x-tenant': organization };
    const response = await api.get('/v1/purchases', own.secret, headers);
    expect(comparable(response)).toStrictEqual(comparable(usual));
  });

  it('gets no 304 for an ETag of another', async ({ api }) => {
    const tag = String((await api.get('/v1/purchases/stats', other.secret)).headers.etag);
    const response = await api.get('/v1/purchases/stats', own.secret, { 'if-none-match': tag });
    expect(response.statusCode).toBe(200);
    expect(response.headers.etag).not.toBe(tag);
  });
});

type Shop = {
  readonly organizationId: bigint;
  readonly keyId: bigint;
  readonly secret: string;
  readonly customerId: bigint;
  readonly purchaseIds: readonly bigint[];
};

const textFields = (mark: string) => ({
  order_id_on_integration_platform: mark,
  order_number: mark,
  status: mark,
  shipping_status: mark,
  currency: mark,
  coupons: JSON.stringify([{ id: mark, code: mark, type: mark }]),
  utm_source: mark,
  utm_medium: mark,
  utm_campaign: mark,
  utm_content: mark,
  utm_term: mark,
});

async function addShop({ pool }: TestDatabase, mark: string): Promise<Shop> {
  const organizationId = await addOrganization(pool, mark);
  const { id: keyId, secret } = await addKey(pool, organizationId, { name: mark });
  const customerId = await addCustomer(pool, organizationId);
  const purchaseIds: bigint[] = [];
  for (let count = 0; count < 3; count += 1) {
    const values = { ...textFields(mark), customer_id: customerId };
    purchaseIds.push(await addPurchase(pool, organizationId, values));
  }
  return { organizationId, keyId, secret, customerId, purchaseIds };
}
