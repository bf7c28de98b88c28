import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test as it } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

const filters = {
  status: 'paid',
  platform: 'popup',
  created_since: '2026-01-01T00:00:00Z',
  created_until: '2026-12-31T00:00:00Z',
  min_value_in_cents: '1',
  max_value_in_cents: '1000',
};
const format = { format: 'json' };
const tracking = {
  utm_source: 'a',
  utm_medium: 'a',
  utm_campaign: 'a',
  utm_content: 'a',
  utm_term: 'a',
};

describe('the names of parameters', () => {
  let routes: { url: string; accepted: Record<string, string> }[];
  it.beforeAll(async ({ database, shop, customerId }) => {
    const purchaseId = await addPurchase(database.pool, shop.organizationId, {
      customer_id: customerId,
    });
    const customer = encodeId('customer', customerId);
    const purchase = encodeId('purchase', purchaseId);
    const page = { limit: '5', starting_after: purchase };
    routes = [
      { url: '/v1/me', accepted: {} },
      { url: `/v1/purchases/${purchase}`, accepted: {} },
      { url: '/v1/purchases', accepted: { ...page, ...filters, ...format, customer_id: customer } },
      { url: `/v1/customers/${customer}/purchases`, accepted: { ...page, ...filters, ...format } },
      {
        url: '/v1/purchases/stats',
        accepted: {
          ...filters,
          ...tracking,
          ...format,
          customer_id: customer,
          group_by: 'day',
          group_limit: '5',
        },
      },
    ];
  });

  const names = (): string[] => [
    ...new Set(routes.flatMap(({ accepted }) => Object.keys(accepted))),
  ];

  it('that a route documents are accepted, one by one and together', async ({ get }) => {
    for (const { url, accepted } of routes) {
      const all = Object.entries(accepted).map(
        ([name, value]) => `${name}=${encodeURIComponent(value)}`,
      );
      for (const query of [...all, all.join('&')]) {
        const response = await get(`${url}?${query}`);
        expect(response.statusCode, `${url}?${query}: ${response.body}`).toBe(200);
      }
    }
  });

  it('that only other routes document are refused and named', async ({ get }) => {
    for (const { url, accepted } of routes) {
      for (const name of names().filter((known) => !(known in accepted))) {
        expectRefusal(await get(`${url}?${name}=1`), 'validation_error', name);
      }
    }
  });

  it.for([
    ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf', 'prototype', 'then'],
    ...['foo', 'Limit', 'LIMIT', 'page', 'sort', 'organization_id', 'customerId', 'limit[]'],
    ...['limit.', '$limit', 'é', '🛒', '0', 'a'.repeat(2000)],
  ])('that are undocumented (%s) are refused and named', async (name, { get }) => {
    for (const { url } of routes) {
      const encoded = encodeURIComponent(name);
      for (const query of [`${encoded}=1`, encoded, `${encoded}=`]) {
        expectRefusal(await get(`${url}?${query}`), 'validation_error', name);
      }
    }
  });

  it('that are empty are refused', async ({ get }) => {
    for (const { url } of routes) {
      const { error } = expectRefusal(await get(`${url}?=1`), 'validation_error');
      expect(error.message).toBe('The query string has a value without a name.');
    }
  });

  it('that are repeated are refused and named, whatever their values', async ({ get }) => {
    for (const { url, accepted } of routes) {
      for (const [name, value] of Object.entries({ ...accepted, foo: 'a', __proto__x: 'a' })) {
        const once = `${name}=${encodeURIComponent(value)}`;
        for (const query of [`${once}&${once}`, `${once}&${name}=`, `${name}&${once}`]) {
          expectRefusal(await get(`${url}?${query}`), 'validation_error', name);
        }
      }
    }
  });

  it('that are repeated in another spelling of percent-encoding are refused', async ({ get }) => {
    const response = await get('/v1/purchases?limit=5&%6cimit=5');
    expectRefusal(response, 'validation_error', 'limit');
  });

  it.for(['__proto__', 'constructor'])(
    'that are %s twice are refused and named',
    async (name, { get }) => {
      const response = await get(`/v1/purchases?${name}=1&${name}=2`);
      expectRefusal(response, 'validation_error', name);
    },
  );

  it('may be percent-encoded', async ({ get }) => {
    const response = await get('/v1/purchases?%6Cimit=1');
    expect(response.json().data).toHaveLength(1);
  });

  it('may be missing in an empty query string', async ({ get }) => {
    for (const { url } of routes) {
      for (const query of ['?', '?&', '?&&']) {
        expect((await get(`${url}${query}`)).statusCode).toBe(200);
      }
    }
  });

  it('are not read after a second question mark', async ({ get }) => {
    const response = await get('/v1/purchases?limit=1?status=paid');
    expectRefusal(response, 'validation_error', 'limit');
  });
});
