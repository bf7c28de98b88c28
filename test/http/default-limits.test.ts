import { describe, expect } from 'vitest';
import { readSettings } from '../../src/settings/settings.ts';
import { test } from '../support/fixtures.ts';

const it = test.extend(
  'statusOf',
  ({ api, shop }) =>
    async (url: string) =>
      (await api.get(url, shop.secret)).statusCode,
);

describe('the limits', () => {
  it('are 600 requests a minute by default', async ({ shop, startApi }) => {
    const { rateLimitPerMinute } = readSettings({});
    expect(rateLimitPerMinute).toBe(600);
    const api = await startApi({ rateLimitPerMinute });
    const { headers } = await api.get('/v1/me', shop.secret);
    expect(headers).toMatchObject({
      'x-ratelimit-limit': '600',
      'x-ratelimit-remaining': '599',
    });
  });

  it('are 600 requests without a valid key a minute by default', () => {
    expect(readSettings({}).failedKeysPerMinute).toBe(600);
  });

  it.for(['customers', 'segments'])(
    'of a search text in %s are 1 and 256',
    async (path, { statusOf }) => {
      for (const text of ['a', 'a'.repeat(256), '%F0%9F%9B%92'.repeat(256)]) {
        expect(await statusOf(`/v1/${path}?q=${text}`)).toBe(200);
      }
      for (const text of ['', 'a'.repeat(257), '%00']) {
        expect(await statusOf(`/v1/${path}?q=${text}`)).toBe(422);
      }
    },
  );

  it('of a phone are 3 and 32 characters', async ({ statusOf }) => {
    for (const [phone, status] of [
      ['12', 422],
      ['123', 200],
      ['1'.repeat(32), 200],
      ['1'.repeat(33), 422],
    ] as const) {
      expect(await statusOf(`/v1/customers?phone=${phone}`)).toBe(status);
    }
  });
});
