import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { revokeApiKey, type Scope } from '../../src/postgres/keys/api-keys.ts';
import { test } from '../support/fixtures.ts';
import { addKey } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

const requestsPerMinute = 2;
const limits = { rateLimitPerMinute: requestsPerMinute };
const ofUnknownCustomer = `/v1/customers/${encodeId('customer', 999_999_999n)}/purchases`;
const unknownPurchase = `/v1/purchases/${encodeId('purchase', 999_999_999n)}`;

const it = test
  .extend('apiOptions', { scope: 'file' }, limits)
  .extend('freshKey', ({ database, shop }) => (...scopes: Scope[]) => {
    return addKey(database.pool, shop.organizationId, { scopes });
  });

const large = 'x'.repeat(5_000);
/** Requests, and the refusal of those whose key has the scope. Its parameter is last. */
const requests = [
  ['GET', '/v1/nothing', 'invalid_request'],
  ['GET', '/v1/nothing?limit=x', 'invalid_request'],
  ['GET', '/v1/purchases/%ZZ', 'invalid_request'],
  ['POST', '/v1/purchases?limit=x', 'invalid_request', undefined, large],
  ['OPTIONS', '/v1/purchases', 'invalid_request'],
  ['DELETE', '/v1/me', 'invalid_request'],
  ['GET', '/v1/purchases', 'invalid_request', undefined, large],
  ['GET', '/v1/purchases?limit=x', 'validation_error', 'limit'],
  ['GET', `${ofUnknownCustomer}?limit=0`, 'validation_error', 'limit'],
  ['GET', `${unknownPurchase}?x=1`, 'validation_error', 'x'],
  ['GET', '/v1/customers/pur_x/purchases?limit=0', 'validation_error', 'customer_id'],
  ['GET', ofUnknownCustomer, 'not_found'],
  ['GET', `/v1/purchases/pur_${'a'.repeat(5000)}`, 'not_found'],
] as const;

describe('if there are several reasons to refuse a request, the error is about', () => {
  it.for(requests)(
    'the key, the rate limit, the scope, the route, a parameter, and existence last: %s %s',
    async ([method, url, type, param, payload], { api: { app }, freshKey }) => {
      const send = (secret?: string) => {
        const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
        return app.inject({ method, url, headers, ...(payload ? { payload } : {}) });
      };
      expectRefusal(await send(), 'authentication_error');
      expectRefusal(await send('crm_live_wrong'), 'authentication_error');
      const [writing, reading] = [await freshKey('write'), await freshKey('read')];
      for (let left = requestsPerMinute; left > 0; left -= 1) {
        expectRefusal(await send(writing.secret), 'permission_denied');
        expectRefusal(await send(reading.secret), type, param);
      }
      for (const { secret } of [writing, reading]) {
        expectRefusal(await send(secret), 'rate_limited');
      }
    },
  );

  it('the key rather than the rate limit', async ({ database, api, freshKey }) => {
    const { id, secret } = await freshKey('read');
    for (let left = requestsPerMinute; left > 0; left -= 1) await api.get('/v1/me', secret);
    expectRefusal(await api.get('/v1/me', secret), 'rate_limited');
    await revokeApiKey(database.pool, id);
    const refused = await api.get('/v1/me', secret);
    expectRefusal(refused, 'authentication_error');
    expect(Object.keys(refused.headers).join()).not.toMatch(/ratelimit|retry/i);
  });
});
