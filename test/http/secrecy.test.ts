import { describe, expect } from 'vitest';
import { loggedTest as it } from './logged-test.ts';
import { reveals } from './recorded-log.ts';

describe('the secret of a key', () => {
  it.beforeEach(({ recorded: { lines } }) => {
    lines.length = 0;
  });

  it('is neither logged nor repeated when it is sent as a parameter', async ({
    api,
    recorded: { lines },
    shop,
  }) => {
    for (const key of [undefined, shop.secret]) {
      const response = await api.get(`/v1/purchases?api_key=${shop.secret}`, key);
      expect([401, 422]).toContain(response.statusCode);
      expect(reveals(response.body, shop.secret)).toBe(false);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });

  it('is neither logged nor repeated when it is sent as a parameter of a malformed URL', async ({
    send,
    recorded: { lines },
    shop,
  }) => {
    const response = await send(`/v1/%ZZ?api_key=${shop.secret}`);
    expect(response.statusCode).toBe(400);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
    expect(reveals(response.body, shop.secret)).toBe(false);
  });

  it('is not logged when it is sent as a part of the path', async ({
    send,
    recorded: { lines },
    shop,
  }) => {
    for (const path of [`/v1/${shop.secret}`, `/v1/purchases/${shop.secret}`]) {
      expect([400, 422]).toContain((await send(path)).statusCode);
    }
    expect(lines).not.toHaveLength(0);
    expect(lines.filter((line) => reveals(line, shop.secret))).toEqual([]);
  });

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
