import type { LightMyRequestResponse } from 'fastify';
import { afterEach, describe, expect, vi } from 'vitest';
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
  afterEach(() => {
    vi.useRealTimers();
  });

  const freshKey = async () => (await addKey(database.pool, organizationId)).secret;
  const useUp = async (secret: string) => {
    for (let request = 0; request < requestsPerMinute; request += 1) {
      expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
    }
  };
  // For counts in Postgres, its clock counts (shared-limits.test.ts).
  const inMemory = store === 'memory';
  /** Sets the time of `Date` only. Timers and sockets use the real time. */
  const setClock = (instant: string) => {
    vi.useFakeTimers({ toFake: ['Date'] });
    vi.setSystemTime(instant);
  };
  const remaining = (response: LightMyRequestResponse) => response.headers['x-ratelimit-remaining'];

  it('decreases with each response, and then requests are refused', async () => {
    const secret = await freshKey();
    for (const left of ['2', '1', '0']) {
      const response = await api.get('/v1/me', secret);
      expect(response.statusCode).toBe(200);
      expect(response.headers).toMatchObject({
        'x-ratelimit-limit': '3',
        'x-ratelimit-remaining': left,
      });
      expect(response.headers).not.toHaveProperty('retry-after');
    }
    for (let request = 0; request < 3; request += 1) {
      const refused = await api.get('/v1/me', secret);
      expectRefusal(refused, 'rate_limited');
      expect(refused.headers).toMatchObject({
        'x-ratelimit-limit': '3',
        'x-ratelimit-remaining': '0',
      });
    }
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

  it('sends Retry-After in whole seconds with a 429', async () => {
    const secret = await freshKey();
    await useUp(secret);
    const refused = await api.get('/v1/me', secret);
    const { retry_after: seconds } = expectRefusal(refused, 'rate_limited');
    expect(Number.isInteger(seconds)).toBe(true);
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(refused.headers['retry-after']).toBe(String(seconds));
    expect(JSON.parse(refused.body)).toHaveProperty('retry_after', seconds);
  });

  it('ends its window at a UTC date-time in the future', async () => {
    const before = Date.now();
    const response = await api.get('/v1/me', await freshKey());
    const reset = String(response.headers['x-ratelimit-reset']);
    expect(reset).toMatch(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$/);
    expect(Date.parse(reset)).toBeGreaterThan(before);
    expect(Date.parse(reset)).toBeLessThanOrEqual(Date.now() + 60_000);
  });

  it.runIf(inMemory)('has a window of a minute from the first request on', async () => {
    const secret = await freshKey();
    setClock('2030-01-01T00:00:00.000Z');
    const first = await api.get('/v1/me', secret);
    setClock('2030-01-01T00:00:30.500Z');
    const second = await api.get('/v1/me', secret);
    for (const response of [first, second]) {
      expect(response.headers['x-ratelimit-reset']).toBe('2030-01-01T00:01:00.000Z');
    }
  });

  it.runIf(inMemory)('rounds Retry-After up, to at least 1', async () => {
    const secret = await freshKey();
    setClock('2030-01-01T00:00:00.000Z');
    await useUp(secret);
    for (const [now, seconds] of [
      ['2030-01-01T00:00:00.000Z', 60],
      ['2030-01-01T00:00:30.500Z', 30],
      ['2030-01-01T00:00:59.001Z', 1],
      ['2030-01-01T00:00:59.999Z', 1],
    ] as const) {
      setClock(now);
      const refused = expectRefusal(await api.get('/v1/me', secret), 'rate_limited');
      expect(refused.retry_after).toBe(seconds);
    }
  });

  it.runIf(inMemory)('sends no Retry-After beyond the window if the clock went back', async () => {
    const secret = await freshKey();
    setClock('2030-01-01T01:00:00.000Z');
    await useUp(secret);
    setClock('2030-01-01T00:00:00.000Z');
    const refused = await api.get('/v1/me', secret);
    expect(expectRefusal(refused, 'rate_limited').retry_after).toBe(60);
    expect(refused.headers['x-ratelimit-reset']).toBe('2030-01-01T00:01:00.000Z');
  });

  it.runIf(inMemory)('starts a new window when the last one has ended', async () => {
    const secret = await freshKey();
    setClock('2030-01-01T00:00:00.000Z');
    await useUp(secret);
    for (let request = 0; request < 10; request += 1) {
      expectRefusal(await api.get('/v1/me', secret), 'rate_limited');
    }
    setClock('2030-01-01T00:01:00.001Z');
    const response = await api.get('/v1/me', secret);
    expect(response.statusCode).toBe(200);
    expect(remaining(response)).toBe('2');
    expect(response.headers['x-ratelimit-reset']).toBe('2030-01-01T00:02:00.001Z');
  });

  it('is separate for each key of an organization', async () => {
    const [one, other] = [await freshKey(), await freshKey()];
    await useUp(one);
    expectRefusal(await api.get('/v1/me', one), 'rate_limited');
    expect(remaining(await api.get('/v1/me', other))).toBe('2');
  });

  it('is shared by all routes', async () => {
    const secret = await freshKey();
    for (const [url, left] of [
      ['/v1/me', '2'],
      ['/v1/purchases', '1'],
      ['/v1/purchases/stats', '0'],
    ] as const) {
      expect(remaining(await api.get(url, secret))).toBe(left);
    }
    expectRefusal(await api.get('/v1/purchases', secret), 'rate_limited');
  });

  it.each([
    ['200', '/v1/purchases', 200],
    ['400', '/v1/nothing', 400],
    ['400 of a malformed path', '/v1/purchases/%ZZ', 400],
    ['404', `/v1/purchases/${encodeId('purchase', 999_999_999n)}`, 404],
    ['422', '/v1/purchases?limit=x', 422],
  ])('counts a request with the response %s, which has the headers', async (_name, url, status) => {
    const secret = await freshKey();
    const response = await api.get(url, secret);
    expect(response.statusCode).toBe(status);
    expect(response.headers).toMatchObject({
      'x-ratelimit-limit': '3',
      'x-ratelimit-remaining': '2',
      'x-ratelimit-reset': expect.stringMatching(/Z$/),
    });
    expect(remaining(await api.get('/v1/me', secret))).toBe('1');
  });

  it.each([
    ['a HEAD request', 'HEAD', {}, 200],
    ['a request with the response 304', 'GET', { 'if-none-match': '*' }, 304],
    ['an unsupported method', 'POST', {}, 400],
    ['a request of a key without the scope read', 'GET', {}, 403],
  ] as const)('counts %s', async (_name, method, headers, status) => {
    const scopes = [status === 403 ? 'write' : 'read'] as const;
    const { secret } = await addKey(database.pool, organizationId, { scopes });
    const authorization = `Bearer ${secret}`;
    const request = { method, url: '/v1/me', headers: { authorization, ...headers } };
    const response = await api.app.inject(request);
    expect([response.statusCode, remaining(response)]).toEqual([status, '2']);
    expect(remaining(await api.get('/v1/me', secret))).toBe('1');
  });

  it('has no headers on responses without a valid key', async () => {
    const response = await api.get('/v1/me');
    expect(Object.keys(response.headers).filter((name) => /ratelimit|retry/.test(name))).toEqual(
      [],
    );
  });

  it('does not apply to health checks', async () => {
    for (let request = 0; request < 3 * requestsPerMinute; request += 1) {
      expect((await api.get('/healthz')).statusCode).toBe(200);
    }
  });
});
