import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { revokeApiKey, type Scope } from '../../src/postgres/api-keys.ts';
import { test } from '../support/fixtures.ts';
import { addKey } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

const requestsPerMinute = 2;
const unknownCustomer = encodeId('customer', 999_999_999n);

const it = test
  .extend(
    'apiOptions',
    { scope: 'file' },
    {
      rateLimitPerMinute: requestsPerMinute,
    },
  )
  .extend(
    'freshKey',
    ({ database, shop }) =>
      (scopes: readonly Scope[] = ['read']) =>
        addKey(database.pool, shop.organizationId, { scopes }),
  )
  .extend('useUp', ({ api }) => async (secret: string) => {
    for (let request = 0; request < requestsPerMinute; request += 1) {
      await api.get('/v1/me', secret);
    }
  });

// Key, rate limit, scope, route, parameters, existence.
describe('if there are several reasons to refuse a request, the error is about', () => {
  it('the key rather than the rate limit', async ({ database, api, freshKey, useUp }) => {
    const key = await freshKey();
    await useUp(key.secret);
    expectRefusal(await api.get('/v1/me', key.secret), 'rate_limited');
    await revokeApiKey(database.pool, key.id);
    expectRefusal(await api.get('/v1/me', key.secret), 'authentication_error');
  });

  it('the key, also after many wrong keys', async ({ api }) => {
    for (let request = 0; request < 3 * requestsPerMinute; request += 1) {
      const response = await api.get('/v1/me', 'crm_live_wrong');
      expectRefusal(response, 'authentication_error');
      expect(Object.keys(response.headers).join()).not.toMatch(/ratelimit|retry/i);
    }
  });

  it.for(['/v1/nothing', '/v1/purchases?limit=x', `/v1/customers/${unknownCustomer}/purchases`])(
    'the key rather than anything about %s',
    async (url, { api }) => {
      expectRefusal(await api.get(url), 'authentication_error');
    },
  );

  it.for([
    ['a malformed path', '/v1/purchases/%ZZ'],
    ['a path parameter that is too long', `/v1/purchases/pur_${'a'.repeat(5000)}`],
  ] as const)('the key rather than %s', async ([_name, url], { api }) => {
    expectRefusal(await api.get(url), 'authentication_error');
  });

  it('the key rather than the method or the body', async ({ api }) => {
    for (const method of ['GET', 'POST', 'OPTIONS'] as const) {
      const payload = 'x'.repeat(method === 'OPTIONS' ? 0 : 5000);
      const response = await api.app.inject({ method, url: '/v1/purchases', payload });
      expectRefusal(response, 'authentication_error');
    }
  });

  it('the rate limit rather than the scope', async ({ api, freshKey }) => {
    const { secret } = await freshKey(['write']);
    for (let request = 0; request < requestsPerMinute; request += 1) {
      expectRefusal(await api.get('/v1/me', secret), 'permission_denied');
    }
    expectRefusal(await api.get('/v1/me', secret), 'rate_limited');
  });

  it.for([
    ['the route', '/v1/nothing'],
    ['a parameter', '/v1/purchases?limit=x'],
    ['existence', `/v1/customers/${unknownCustomer}/purchases`],
    ['a malformed path', '/v1/purchases/%ZZ'],
  ] as const)('the rate limit rather than %s', async ([_name, url], { api, freshKey, useUp }) => {
    const { secret } = await freshKey();
    await useUp(secret);
    expectRefusal(await api.get(url, secret), 'rate_limited');
  });

  it.for([
    ['the route', '/v1/nothing'],
    ['a parameter', '/v1/purchases?limit=x'],
    ['existence', `/v1/customers/${unknownCustomer}/purchases`],
    ['a malformed path', '/v1/purchases/%ZZ'],
  ] as const)('the scope rather than %s', async ([_name, url], { api, freshKey }) => {
    const { secret } = await freshKey(['write']);
    expectRefusal(await api.get(url, secret), 'permission_denied');
  });

  it('the scope rather than the method', async ({ api, freshKey }) => {
    const { secret } = await freshKey(['write']);
    const headers = { authorization: `Bearer ${secret}` };
    const response = await api.app.inject({ method: 'DELETE', url: '/v1/me', headers });
    expectRefusal(response, 'permission_denied');
  });

  it('the route rather than a parameter', async ({ api, freshKey }) => {
    const { secret } = await freshKey();
    expectRefusal(await api.get('/v1/nothing?limit=x', secret), 'invalid_request');
    const headers = { authorization: `Bearer ${secret}` };
    const url = '/v1/purchases?limit=x';
    expectRefusal(await api.app.inject({ method: 'POST', url, headers }), 'invalid_request');
  });

  it('a parameter rather than existence', async ({ api, freshKey }) => {
    const { secret } = await freshKey();
    const customer = await api.get(`/v1/customers/${unknownCustomer}/purchases?limit=0`, secret);
    expectRefusal(customer, 'validation_error', 'limit');
    const purchase = `/v1/purchases/${encodeId('purchase', 999_999_999n)}`;
    expectRefusal(await api.get(`${purchase}?x=1`, secret), 'validation_error', 'x');
  });

  it('the parameter of the path rather than those of the query', async ({ api, freshKey }) => {
    const { secret } = await freshKey();
    const response = await api.get('/v1/customers/pur_x/purchases?limit=0', secret);
    expectRefusal(response, 'validation_error', 'customer_id');
  });

  it('existence last', async ({ api, freshKey }) => {
    const { secret } = await freshKey();
    expectRefusal(await api.get(`/v1/customers/${unknownCustomer}/purchases`, secret), 'not_found');
  });
});
