import { describe, expect } from 'vitest';
import { loggedTest as it } from './logged-test.ts';
import { reveals } from './recorded-log.ts';

describe('the secret of a key', () => {
  it.beforeEach(({ recorded: { lines } }) => {
    lines.length = 0;
  });

  it.for([
    ['a parameter', '/v1/purchases?api_key='],
    ['a parameter of a malformed URL', '/v1/%ZZ?api_key='],
    ['a part of the path', '/v1/'],
    ['an id', '/v1/purchases/'],
  ] as const)(
    'is neither logged nor repeated when it is sent as %s',
    async ([_, prefix], { api, recorded: { lines }, shop }) => {
      for (const key of [undefined, shop.secret]) {
        const response = await api.get(prefix + shop.secret, key);
        expect([400, 401, 422]).toContain(response.statusCode);
        expect(reveals(response.body, shop.secret)).toBe(false);
      }
      expect(lines).not.toHaveLength(0);
      expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
    },
  );

  it('is not logged when the request is not HTTP', async ({
    client,
    recorded: { lines },
    shop,
  }) => {
    const responses = await client.sendBytes(
      `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.secret}\r\nbad header\r\n\r\n`,
    );
    expect(responses).toMatchObject([{ status: 400 }]);
    expect(reveals(JSON.stringify(responses), shop.secret)).toBe(false);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });
});
