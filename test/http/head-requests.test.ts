import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { addPurchase } from '../support/shop.ts';

describe('HEAD', () => {
  let purchase: string;
  let customer: string;

  const it = test.extend(
    'send',
    ({ api, shop }) =>
      (method: 'GET' | 'HEAD', url: string, headers: Record<string, string> = {}) => {
        const authorization = `Bearer ${shop.secret}`;
        return api.app.inject({ method, url, headers: { authorization, ...headers } });
      },
  );

  it.beforeAll(async ({ database, shop, customerId }) => {
    const purchaseId = await addPurchase(database.pool, shop.organizationId, {
      customer_id: customerId,
      utm_campaign: 'páscoa 🐣',
    });
    purchase = encodeId('purchase', purchaseId);
    customer = encodeId('customer', customerId);
  });

  /** The headers without the values that differ between requests. */
  function comparable(response: LightMyRequestResponse) {
    const { date, 'request-id': id, 'x-data-as-of': asOf, ...headers } = response.headers;
    expect(id).toMatch(/^req_[a-f0-9]{24}$/);
    expect(Number(headers['x-ratelimit-remaining'] ?? 0)).not.toBeNaN();
    delete headers['x-ratelimit-remaining'];
    delete headers['x-ratelimit-reset'];
    return { ...headers, dated: date !== undefined, asOf: asOf !== undefined };
  }

  const urls = [
    ['the identity', () => '/v1/me', 200],
    ['the list', () => '/v1/purchases', 200],
    ['a purchase', () => `/v1/purchases/${purchase}`, 200],
    ['the statistics', () => '/v1/purchases/stats?group_by=utm_campaign', 200],
    ['a customer’s purchases', () => `/v1/customers/${customer}/purchases`, 200],
    ['a probe', () => '/healthz', 200],
    ['the root', () => '/', 200],
    ['an unknown route', () => '/v1/nothing', 400],
    ['an unknown purchase', () => '/v1/purchases/pur_nobody', 404],
    ['an invalid parameter', () => '/v1/purchases?limit=0', 422],
  ] as const;

  it.for(urls)(
    'of %s has the status and headers of GET, and no body',
    async ([_name, url, status], { send }) => {
      const get = await send('GET', url());
      const head = await send('HEAD', url());
      expect(get.statusCode).toBe(status);
      expect(head.statusCode).toBe(status);
      const length = String(Buffer.byteLength(get.body));
      // The message for an unknown route contains the method, so its length differs.
      expect(get.headers['content-length']).toBe(length);
      const ignored = status === 400 ? { 'content-length': '' } : {};
      expect({ ...comparable(head), ...ignored }).toStrictEqual({ ...comparable(get), ...ignored });
      expect(head.body).toBe('');
    },
  );

  it('without a key is refused like GET', async ({ api }) => {
    const get = await api.app.inject({ method: 'GET', url: '/v1/me' });
    const head = await api.app.inject({ method: 'HEAD', url: '/v1/me' });
    expect(head.statusCode).toBe(401);
    expect(head.body).toBe('');
    expect(comparable(head)).toStrictEqual(comparable(get));
  });

  it.for(urls.filter(([, , status]) => status === 200))(
    'of %s evaluates If-None-Match as GET does',
    async ([_name, url], { send }) => {
      const get = await send('GET', url(), { 'if-none-match': '*' });
      const head = await send('HEAD', url(), { 'if-none-match': '*' });
      expect(head.statusCode).toBe(get.statusCode);
      expect(head.statusCode).toBe('etag' in get.headers ? 304 : 200);
      expect(comparable(head)).toStrictEqual(comparable(get));
      expect(head.body).toBe('');
    },
  );
});
