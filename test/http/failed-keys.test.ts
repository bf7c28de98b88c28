import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { expectRefusal } from './refusal.ts';

describe('requests without a valid key', () => {
  /** This limit belongs to an address. `X-RateLimit-*` describe the limit of a key, so they are absent. */
  const expectThrottled = (response: LightMyRequestResponse) => {
    const { retry_after: seconds } = expectRefusal(response, 'rate_limited');
    expect(response.headers['retry-after']).toBe(String(seconds));
    const names = Object.keys(response.headers);
    expect(names.filter((name) => name.startsWith('x-ratelimit'))).toEqual([]);
  };

  it('are limited for each address, without effect on valid keys', async ({ shop, startApi }) => {
    const api = await startApi({ failedKeysPerMinute: 3 });
    for (let count = 0; count < 3; count += 1) {
      expectRefusal(await api.get('/v1/me', 'crm_live_wrong'), 'authentication_error');
    }
    expectThrottled(await api.get('/v1/me'));
    expect((await api.get('/v1/me', shop.secret)).statusCode).toBe(200);
  });

  it('are counted by X-Forwarded-For only if the proxy is trusted', async ({ startApi }) => {
    const forwarded = (address: string) => ({ 'x-forwarded-for': address });
    const behindProxy = await startApi({ failedKeysPerMinute: 1, trustedProxies: ['127.0.0.1'] });
    for (const address of ['192.0.2.1', '192.0.2.2']) {
      const response = await behindProxy.get('/v1/me', undefined, forwarded(address));
      expectRefusal(response, 'authentication_error');
    }
    const again = await behindProxy.get('/v1/me', undefined, forwarded('192.0.2.1'));
    expectRefusal(again, 'rate_limited');

    const withoutProxy = await startApi({ failedKeysPerMinute: 1 });
    expectRefusal(
      await withoutProxy.get('/v1/me', undefined, forwarded('192.0.2.1')),
      'authentication_error',
    );
    expectRefusal(
      await withoutProxy.get('/v1/me', undefined, forwarded('192.0.2.2')),
      'rate_limited',
    );
  });

  it('are counted for each /64 network of IPv6 addresses', async ({ startApi }) => {
    const api = await startApi({ failedKeysPerMinute: 1, trustedProxies: ['127.0.0.1'] });
    const from = (address: string) => api.get('/v1/me', undefined, { 'x-forwarded-for': address });
    expectRefusal(await from('2001:db8:0:1::1'), 'authentication_error');
    expectRefusal(await from('2001:db8::1:2:3:4:5'), 'rate_limited');
    expectRefusal(await from('2001:db8:0:2::1'), 'authentication_error');
    expectRefusal(await from('192.0.2.1'), 'authentication_error');
    expectRefusal(await from('::ffff:192.0.2.1'), 'rate_limited');
  });

  it('have one count if API processes share their limits', async ({ startApi }) => {
    const options = { failedKeysPerMinute: 2, rateLimitStore: 'postgres' } as const;
    const [one, other] = [await startApi(options), await startApi(options)];
    expectRefusal(await one.get('/v1/me'), 'authentication_error');
    expectRefusal(await other.get('/v1/me'), 'authentication_error');
    expectThrottled(await one.get('/v1/me'));
  });
});
