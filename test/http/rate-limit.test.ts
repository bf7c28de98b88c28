import type { LightMyRequestResponse } from 'fastify';
import { describe, expect, vi } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { expectRefusal } from './refusal.ts';

const requestsPerMinute = 3;

describe.each(['memory', 'postgres'] as const)('the rate limit, counted in %s,', (store) => {
  let database: TestDatabase;
  let api: TestApi;
  let organizationId: bigint;
  it.beforeAll(async ({ database: ownDatabase, directory }) => {
    database = ownDatabase;
    api = await createTestApi(database.pool, directory, {
      rateLimitPerMinute: requestsPerMinute,
      rateLimitStore: store,
    });
    organizationId = await addOrganization(database.pool);
    return api.close;
  });
  const freshKey = async () => (await addKey(database.pool, organizationId)).secret;
  const remaining = (response: LightMyRequestResponse) => response.headers['x-ratelimit-remaining'];

  it('decreases with each response of any route, and then the requests of this key are refused', async () => {
    const [secret, other] = [await freshKey(), await freshKey()];
    for (const [url, left] of [
      ['/v1/me', '2'],
      ['/v1/purchases', '1'],
      ['/v1/purchases/stats', '0'],
    ] as const) {
      const response = await api.get(url, secret);
      expect(response.statusCode).toBe(200);
      expect(response.headers).toMatchObject({
        'x-ratelimit-limit': '3',
        'x-ratelimit-remaining': left,
      });
      expect(response.headers).not.toHaveProperty('retry-after');
    }
    for (const url of ['/v1/me', '/v1/purchases', '/v1/me']) {
      const refused = await api.get(url, secret);
      const { retry_after: seconds = 0 } = expectRefusal(refused, 'rate_limited');
      expect(Number.isInteger(seconds)).toBe(true);
      expect(seconds).toBeGreaterThanOrEqual(1);
      expect(seconds).toBeLessThanOrEqual(60);
      expect(refused.headers).toMatchObject({
        'retry-after': String(seconds),
        'x-ratelimit-limit': '3',
        'x-ratelimit-remaining': '0',
      });
    }
    expect(remaining(await api.get('/v1/me', other))).toBe('2');
  });

  it('admits exactly that many of many concurrent requests', async () => {
    const secret = await freshKey();
    const responses = await Promise.all(
      Array.from({ length: 12 }, () => api.get('/v1/me', secret)),
    );
    const passed = responses.filter(({ statusCode }) => statusCode === 200);
    expect(passed.map(remaining).sort()).toEqual(['0', '1', '2']);
    expect(responses.filter(({ statusCode }) => statusCode === 429)).toHaveLength(9);
  });

  it('ends its window at a UTC date-time in the future', async () => {
    const before = Date.now();
    const response = await api.get('/v1/me', await freshKey());
    const reset = String(response.headers['x-ratelimit-reset']);
    expect(reset).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$/);
    expect(Date.parse(reset)).toBeGreaterThan(before);
    expect(Date.parse(reset)).toBeLessThanOrEqual(Date.now() + 60_000);
  });

  // For counts in Postgres, its clock counts (shared-limits.test.ts).
  it.runIf(store === 'memory')(
    'has a window of a minute from the first request on, and Retry-After is rounded up',
    async ({ onTestFinished }) => {
      onTestFinished(() => void vi.useRealTimers());
      const secret = await freshKey();
      const end = '2030-01-01T00:01:00.000Z';
      for (const [time, status, reset, retryAfter] of [
        ['00:00:00.000', 200, end, undefined],
        ['00:00:30.500', 200, end, undefined],
        ['00:00:30.500', 200, end, undefined],
        ['00:00:00.000', 429, end, '60'],
        ['00:00:30.500', 429, end, '30'],
        ['00:00:59.001', 429, end, '1'],
        ['00:00:59.999', 429, end, '1'],
        // Refused requests do not extend it.
        ['00:01:00.001', 200, '2030-01-01T00:02:00.001Z', undefined],
        ['00:01:00.001', 200, '2030-01-01T00:02:00.001Z', undefined],
        ['00:01:00.001', 200, '2030-01-01T00:02:00.001Z', undefined],
        // The clock went back.
        ['00:00:00.000', 429, end, '60'],
      ] as const) {
        // Timers and sockets use the real time.
        vi.useFakeTimers({ toFake: ['Date'], now: Date.parse(`2030-01-01T${time}Z`) });
        const response = await api.get('/v1/me', secret);
        const { headers } = response;
        const found = [response.statusCode, headers['x-ratelimit-reset'], headers['retry-after']];
        expect([time, ...found]).toEqual([time, status, reset, retryAfter]);
      }
    },
  );

  it.each([
    ['GET', '/v1/purchases', 200],
    ['HEAD', '/v1/purchases', 200],
    ['GET', '/v1/me', 304],
    ['GET', '/v1/nothing', 400],
    ['GET', '/v1/purchases/%ZZ', 400],
    ['POST', '/v1/me', 400],
    ['GET', '/v1/me', 403],
    ['GET', `/v1/purchases/${encodeId('purchase', 999_999_999n)}`, 404],
    ['GET', '/v1/purchases?limit=x', 422],
  ] as const)(
    'counts a request with any response, which has the headers: %s %s, %i',
    async (method, url, status) => {
      const scopes = [status === 403 ? 'write' : 'read'] as const;
      const { secret } = await addKey(database.pool, organizationId, { scopes });
      const condition = status === 304 ? { 'if-none-match': '*' } : {};
      const headers = { authorization: `Bearer ${secret}`, ...condition };
      const response = await api.app.inject({ method, url, headers });
      expect(response.statusCode).toBe(status);
      expect(response.headers).toMatchObject({
        'x-ratelimit-limit': '3',
        'x-ratelimit-remaining': '2',
        'x-ratelimit-reset': expect.stringMatching(/Z$/),
      });
      expect(remaining(await api.get('/v1/me', secret))).toBe('1');
    },
  );

  it('does not apply to health checks', async () => {
    for (let request = 0; request < 3 * requestsPerMinute; request += 1) {
      expect((await api.get('/healthz')).statusCode).toBe(200);
    }
  });
});
