import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import { addPurchases } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

const listed = 'https://app.example.com';
const preflight = (origin: string) => ({
  origin,
  'access-control-request-method': 'GET',
  'access-control-request-headers': 'authorization',
});
const corsHeaders = ({ headers }: LightMyRequestResponse) =>
  Object.keys(headers).filter((name) => name.startsWith('access-control-'));
const names = (header: unknown) => String(header).toLowerCase().split(', ');

describe.each([
  ['on', [listed, 'http://127.0.0.1:5173']],
  ['off', []],
] as const)('with CORS %s,', (state, corsOrigins) => {
  let api: TestApi;
  let secret: string;
  it.beforeAll(async ({ database, directory, shop, customerId }) => {
    ({ secret } = shop);
    await addPurchases(database.pool, shop.organizationId, customerId, 3);
    api = await createTestApi(database.pool, directory, { corsOrigins });
    return api.close;
  });
  const options = (url: string, headers: Record<string, string>) =>
    api.app.inject({ method: 'OPTIONS', url, headers });
  const from = (origin: string) => ({ origin });

  it('an origin that is not listed gets no header, and its preflight is refused', async () => {
    const otherOrigins = [
      'https://evil.example',
      'https://app.example.com.evil.example',
      'http://app.example.com',
      'https://app.example.com:8443',
      'null',
      ...(state === 'off' ? [listed] : []),
    ];
    for (const origin of otherOrigins) {
      const read = await api.get('/v1/me', secret, from(origin));
      expect(read.statusCode).toBe(200);
      expect(corsHeaders(read)).toEqual([]);
      for (const [url, type] of [
        ['/v1/me', 'authentication_error'],
        ['/v1/nothing', 'authentication_error'],
        ['/healthz', 'invalid_request'],
      ] as const) {
        const response = await options(url, preflight(origin));
        expectRefusal(response, type);
        expect(corsHeaders(response)).toEqual([]);
      }
    }
  });

  it('Vary names Origin only if CORS is on', async () => {
    for (const headers of [{}, from(listed), from('https://evil.example')]) {
      for (const key of [secret, undefined]) {
        const { vary } = (await api.get('/v1/me', key, headers)).headers;
        const others = ['authorization', 'accept', 'accept-encoding'];
        expect(names(vary).sort()).toEqual(
          [...others, ...(state === 'on' ? ['origin'] : [])].sort(),
        );
      }
    }
  });

  if (state === 'off') return;

  it.each(['/v1/me', '/v1/purchases/stats', '/v1/nothing', '/openapi.json'])(
    'a preflight of a listed origin needs no key: %s',
    async (url) => {
      const response = await options(url, preflight(listed));
      expect([response.statusCode, response.body]).toEqual([204, '']);
      expect(response.headers).toMatchObject({
        'access-control-allow-origin': listed,
        'access-control-max-age': '7200',
        vary: 'Origin',
        'request-id': expect.stringMatching(/^req_/),
      });
      expect(names(response.headers['access-control-allow-methods'])).toEqual([
        'get',
        'head',
        'post',
      ]);
      const allowed = names(response.headers['access-control-allow-headers']);
      expect(allowed).toEqual(expect.arrayContaining(['authorization', 'if-none-match']));
      expect(response.headers).not.toHaveProperty('access-control-allow-credentials');
      expect(response.headers).not.toHaveProperty('content-type');
    },
  );

  it('OPTIONS that is no preflight is refused with CORS headers', async () => {
    const response = await options('/v1/me', from(listed));
    expectRefusal(response, 'authentication_error');
    expect(response.headers['access-control-allow-origin']).toBe(listed);
  });

  it('a page of a listed origin may read responses and their headers', async () => {
    const response = await api.get('/v1/purchases?limit=1', secret, from(listed));
    expect(response.statusCode).toBe(200);
    expect(response.headers['access-control-allow-origin']).toBe(listed);
    expect(response.headers).not.toHaveProperty('access-control-allow-credentials');
    const stats = await api.get('/v1/purchases/stats', secret, from(listed));
    const exposed = names(response.headers['access-control-expose-headers']);
    for (const name of ['link', 'x-data-as-of', 'request-id', 'x-ratelimit-remaining']) {
      expect(response.headers).toHaveProperty(name);
      expect(exposed).toContain(name);
    }
    expect(stats.headers).toHaveProperty('etag');
    expect(exposed).toEqual(expect.arrayContaining(['etag', 'retry-after']));
    const unchanged = await api.get('/v1/purchases/stats', secret, {
      ...from(listed),
      'if-none-match': '*',
    });
    expect(unchanged.statusCode).toBe(304);
    expect(unchanged.headers['access-control-allow-origin']).toBe(listed);
  });

  it('a page of a listed origin may read errors', async () => {
    for (const [url, key] of [
      ['/v1/me', undefined],
      ['/v1/me', 'crm_live_wrong'],
      ['/v1/nothing', secret],
      ['/v1/purchases?limit=0', secret],
      ['/v1/purchases/pur_nobody', secret],
      ['/v1/%ZZ', secret],
      ['/nothing', undefined],
    ] as const) {
      const response = await api.get(url, key, from(listed));
      expect(response.statusCode).toBeGreaterThanOrEqual(400);
      expect(response.headers['access-control-allow-origin'], url).toBe(listed);
      expect(response.headers).toHaveProperty('access-control-expose-headers');
    }
  });
});
