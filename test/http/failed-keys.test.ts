import type { LightMyRequestResponse } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { expectRefusal } from './refusal.ts';

describe('requests without a valid key', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let secret: string;
  const apis: TestApi[] = [];

  beforeAll(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    ({ secret } = await addKey(database.pool, await addOrganization(database.pool)));
  });
  afterAll(async () => {
    for (const api of apis) await api.close();
    await database.drop();
    await directory.remove();
  });

  const start = async (options: Parameters<typeof createTestApi>[2]) => {
    const api = await createTestApi(database.pool, directory.path, options);
    apis.push(api);
    return api;
  };

  /** What the response is about is an address: `X-RateLimit-*` are about a key. */
  const expectThrottled = (response: LightMyRequestResponse) => {
    const { retry_after: seconds } = expectRefusal(response, 'rate_limited');
    expect(response.headers['retry-after']).toBe(String(seconds));
    const names = Object.keys(response.headers);
    expect(names.filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  };

  it('are throttled by address, while valid keys of that address go on', async () => {
    const api = await start({ failedKeysPerMinute: 3 });
    for (let count = 0; count < 3; count += 1) {
      expectRefusal(await api.get('/v1/me', 'crm_live_wrong'), 'authentication_error');
    }
    expectThrottled(await api.get('/v1/me'));
    expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
  });

  it('are told apart by X-Forwarded-For only where the proxy is trusted', async () => {
    const forwarded = (address: string) => ({ 'x-forwarded-for': address });
    const trusting = await start({ failedKeysPerMinute: 1, trustedProxies: ['127.0.0.1'] });
    for (const address of ['192.0.2.1', '192.0.2.2']) {
      const response = await trusting.get('/v1/me', undefined, forwarded(address));
      expectRefusal(response, 'authentication_error');
    }
    const again = await trusting.get('/v1/me', undefined, forwarded('192.0.2.1'));
    expectRefusal(again, 'rate_limited');

    const wary = await start({ failedKeysPerMinute: 1 });
    expectRefusal(
      await wary.get('/v1/me', undefined, forwarded('192.0.2.1')),
      'authentication_error',
    );
    expectRefusal(await wary.get('/v1/me', undefined, forwarded('192.0.2.2')), 'rate_limited');
  });

  it('and with one count together where API processes share their limits', async () => {
    const options = {
      failedKeysPerMinute: 2,
      rateLimitPerMinute: 3,
      rateLimitStore: 'postgres',
    } as const;
    const [one, other] = [await start(options), await start(options)];
    expectRefusal(await one.get('/v1/me'), 'authentication_error');
    expectRefusal(await other.get('/v1/me'), 'authentication_error');
    expectThrottled(await one.get('/v1/me'));
    for (const [api, remaining] of [
      [one, '2'],
      [other, '1'],
      [one, '0'],
    ] as const) {
      const response = await api.get('/v1/me', secret);
      expect(response.headers['x-ratelimit-remaining']).toBe(remaining);
    }
    expectRefusal(await other.get('/v1/me', secret), 'rate_limited');
  });
});
