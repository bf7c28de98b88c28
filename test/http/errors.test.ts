import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { ApiError, errorStatuses } from '../../src/http/response/errors.ts';
import { loggedTest as it } from './logged-test.ts';
import { expectRefusal, statusOf } from './refusal.ts';

const types = Object.keys(statusOf) as (keyof typeof statusOf)[];

describe('errors', () => {
  it.beforeAll(async ({ api: { app } }) => {
    for (const type of types) {
      const error = new ApiError(
        type,
        'A message.',
        type === 'rate_limited' ? { retryAfter: 1 } : {},
      );
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
    async (type, { send }) => {
      expectRefusal(await send(`/throws/${type}`), type);
    },
  );

  it.for(['unexpected', 'synchronously', 'text', 'with-a-status'])(
    'that are unexpected (%s) show no details except their request id',
    async (kind, { send, recorded: { lines } }) => {
      const response = await send(`/throws/${kind}`);
      const { error } = expectRefusal(response, 'internal_error');
      expect(response.body).not.toMatch(/hunter2|TypeError|stack|\.ts/);
      expect(lines.filter((line) => line.includes(error.request_id)).join('')).toContain(
        'request failed',
      );
    },
  );

  it('have unique request ids', async ({ send }) => {
    const responses = await Promise.all(Array.from({ length: 50 }, () => send('/v1/nothing')));
    const ids = responses.map((response) => expectRefusal(response, 'invalid_request').error);
    expect(new Set(ids.map(({ request_id }) => request_id)).size).toBe(50);
  });

  it.for(['Request-Id', 'X-Request-Id'])(
    'and successful responses have a request id, which is not that of an inbound %s',
    async (name, { send }) => {
      const sent = 'req_0123456789abcdef01234567';
      const succeeding = ['/v1/me', '/v1/purchases', '/v1/purchases/stats', '/healthz'];
      for (const url of [...succeeding, '/v1/nothing', '/v1/purchases/%ZZ']) {
        const response = await send(url, { headers: { [name]: sent } });
        expect(response.statusCode).toBe(succeeding.includes(url) ? 200 : 400);
        expect(response.headers['request-id']).toMatch(/^req_[a-f0-9]{24}$/);
        expect(response.headers['request-id']).not.toBe(sent);
        expect(response.body).not.toContain(sent);
      }
    },
  );

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
    ])('are 400 for %s', async (url, { send }) => {
      expectRefusal(await send(url), 'invalid_request');
    });

    it.for(['/nothing', '//', '*', '/docs/nothing', '/v2/me', '/v11/me'])(
      'are 400 without a key for %s, which is outside /v1',
      async (url, { api }) => {
        expectRefusal(await api.get(url), 'invalid_request');
      },
    );
  });

  describe('of the request format', () => {
    it('do not occur for an empty body', async ({ send }) => {
      const empty = await send('/v1/me', { headers: { 'content-length': '0' } });
      expect(empty.statusCode).toBe(200);
    });

    it.for(['%', '%Z', '%ZZ', '%E0%A4%A', '%FF', '%C0%AF', '%ED%A0%80'])(
      'are 400 for the percent-encoding %s in a path and in a query, whose parameter is named',
      async (text, { send }) => {
        const value = await send(`/v1/purchases/stats?utm_source=${text}`);
        expectRefusal(value, 'invalid_request', 'utm_source');
        for (const url of [
          `/v1/purchases?${text}=1`,
          `/v1/purchases/pur_${text}`,
          `/v1/customers/cus_${text}/purchases`,
        ]) {
          expectRefusal(await send(url), 'invalid_request');
        }
      },
    );
  });
});
