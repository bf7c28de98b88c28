import type { InjectOptions } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { ApiError, errorStatuses } from '../../src/http/response/errors.ts';
import { loggedTest as it } from './logged-test.ts';
import { expectRefusal, statusOf } from './refusal.ts';

const types = Object.keys(statusOf) as (keyof typeof statusOf)[];

describe('errors', () => {
  it.beforeAll(async ({ api: { app } }) => {
    for (const type of types) {
      const error = new ApiError(type, 'Told.', type === 'rate_limited' ? { retryAfter: 1 } : {});
      app.get(`/throws/${type}`, async () => {
        throw error;
      });
    }
    app.get('/throws/unexpected', async () => {
      throw new Error('the password is hunter2');
    });
    app.get('/throws/synchronously', () => {
      throw new TypeError('the password is hunter2');
    });
    app.get('/throws/text', async () => {
      throw 'the password is hunter2';
    });
    app.get('/throws/with-a-status', async () => {
      throw Object.assign(new Error('the password is hunter2'), { statusCode: 503 });
    });
  });

  it('have exactly the eight types of the specification', () => {
    expect(errorStatuses).toStrictEqual(statusOf);
  });

  it.for(types)(
    'of type %s have the status and the body of the specification',
    async (type, { ask }) => {
      expectRefusal(await ask(`/throws/${type}`), type);
    },
  );

  it.for(['unexpected', 'synchronously', 'text', 'with-a-status'])(
    'that are unexpected (%s) show no details except their request id',
    async (kind, { ask, recorded: { lines } }) => {
      const response = await ask(`/throws/${kind}`);
      const { error } = expectRefusal(response, 'internal_error');
      expect(response.body).not.toMatch(/hunter2|TypeError|stack|\.ts/);
      expect(lines.filter((line) => line.includes(error.request_id)).join('')).toContain('hunter2');
    },
  );

  it('have unique request ids', async ({ ask }) => {
    const responses = await Promise.all(Array.from({ length: 50 }, () => ask('/v1/nothing')));
    const ids = responses.map((response) => expectRefusal(response, 'invalid_request').error);
    expect(new Set(ids.map(({ request_id }) => request_id)).size).toBe(50);
  });

  it.for(['Request-Id', 'X-Request-Id'])('ignore an inbound %s', async (name, { ask }) => {
    const sent = 'req_0123456789abcdef01234567';
    for (const url of ['/v1/me', '/v1/nothing', '/v1/purchases/%ZZ']) {
      const response = await ask(url, { headers: { [name]: sent } });
      expect(response.headers['request-id']).toMatch(/^req_[a-f0-9]{24}$/);
      expect(response.headers['request-id']).not.toBe(sent);
      expect(response.body).not.toContain(sent);
    }
  });

  it('and successful responses have a request id', async ({ ask }) => {
    for (const url of ['/v1/me', '/v1/purchases', '/v1/purchases/stats', '/healthz']) {
      const response = await ask(url);
      expect(response.statusCode).toBe(200);
      expect(response.headers['request-id']).toMatch(/^req_[a-f0-9]{24}$/);
    }
  });

  describe('of the route', () => {
    it.for([
      '/v1',
      '/v1/',
      '/v1/nothing',
      '/v1/me/',
      '/v1/me/more',
      '/v1/Me',
      '/v1/purchase',
      '/v1/purchases/stats/',
      '/v1/purchases/',
      '/v1/customers//purchases',
      `/v1/purchases/${encodeId('purchase', 1n)}/items`,
      `/v1/customers/${encodeId('customer', 1n)}/purchases/stats`,
      '/v1/nothing?limit=x&limit=y',
    ])('answer %s with 400', async (url, { ask }) => {
      expectRefusal(await ask(url), 'invalid_request');
    });

    it.for(['/nothing', '//', '*', '/docs/nothing', '/v2/me', '/v11/me'])(
      'answer %s, outside /v1, with 400 without a key',
      async (url, { api }) => {
        expectRefusal(await api.get(url), 'invalid_request');
      },
    );

    const methods = ['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'] as const;
    it.for(methods)('answer the method %s with 400', async (method, { api: { app }, ask }) => {
      for (const url of ['/v1/me', '/v1/purchases', '/v1/purchases/stats', '/v1/nothing']) {
        const options = { method } as InjectOptions;
        expectRefusal(await ask(url, options), 'invalid_request');
        expectRefusal(await app.inject({ ...options, url }), 'authentication_error');
      }
    });

    it.for([
      ['JSON', 'application/json', '{"a":1}'],
      ['broken JSON', 'application/json', '{'],
      ['a form', 'application/x-www-form-urlencoded', 'a=1'],
      ['something unknown', 'application/x-unknown', 'a'],
      ['too much', 'application/json', JSON.stringify('a'.repeat(100_000))],
    ] as const)('answer a POST of %s with 400', async ([_name, type, payload], { ask }) => {
      const options = { method: 'POST', payload, headers: { 'content-type': type } } as const;
      expectRefusal(await ask('/v1/purchases', options), 'invalid_request');
    });
  });

  describe('of the request format', () => {
    const routes = [
      '/v1/me',
      '/v1/purchases',
      '/v1/purchases/pur_nobody',
      '/v1/purchases/stats',
      '/v1/customers/cus_nobody/purchases',
    ];

    it.for(routes)('answer a body sent to %s with 400', async (url, { ask }) => {
      expectRefusal(await ask(url, { payload: 'a' }), 'invalid_request');
      const type = { 'content-type': 'application/json' };
      expectRefusal(await ask(url, { payload: '{}', headers: type }), 'invalid_request');
      const chunked = { 'transfer-encoding': 'chunked' };
      expectRefusal(await ask(url, { headers: chunked }), 'invalid_request');
    });

    it('do not occur for an empty body', async ({ ask }) => {
      const empty = await ask('/v1/me', { headers: { 'content-length': '0' } });
      expect(empty.statusCode).toBe(200);
    });

    it.for(['%', '%Z', '%ZZ', '%E0%A4%A', '%FF', '%C0%AF', '%ED%A0%80'])(
      'answer the percent-encoding %s in a query with 400 that names the parameter',
      async (text, { ask }) => {
        const value = await ask(`/v1/purchases/stats?utm_source=${text}`);
        expectRefusal(value, 'invalid_request', 'utm_source');
        expectRefusal(await ask(`/v1/purchases?${text}=1`), 'invalid_request');
      },
    );

    it.for(['%', '%Z', '%ZZ', '%E0%A4%A', '%FF', '%C0%AF', '%ED%A0%80'])(
      'answer the percent-encoding %s in a path with 400',
      async (text, { ask }) => {
        expectRefusal(await ask(`/v1/purchases/pur_${text}`), 'invalid_request');
        expectRefusal(await ask(`/v1/customers/cus_${text}/purchases`), 'invalid_request');
      },
    );

    it('answer a path parameter of any length', async ({ ask }) => {
      const long = await ask(`/v1/purchases/pur_${'a'.repeat(1000)}`);
      expectRefusal(long, 'not_found');
      const tooLong = await ask(`/v1/purchases/pur_${'a'.repeat(10_000)}`);
      expectRefusal(tooLong, 'not_found');
    });
  });
});
