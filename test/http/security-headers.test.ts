import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';

describe('security headers', () => {
  const onAnything = {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
  };
  const onData = {
    ...onAnything,
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  };

  it.for([
    ['/v1/me', 200],
    ['/v1/purchases', 200],
    ['/v1/me?a=1', 422],
    ['/v1/nothing', 400],
    ['/v1/%ZZ', 400],
    ['/nothing', 400],
    ['/healthz', 200],
    ['/', 200],
  ] as const)('are sent with %s', async ([url, status], { get }) => {
    const response = await get(url);
    expect(response.statusCode).toBe(status);
    expect(response.headers).toMatchObject(onData);
    expect(response.headers).not.toHaveProperty('strict-transport-security');
  });

  it('are sent with a 304 and a refused key', async ({ api, get }) => {
    const unchanged = await get('/v1/me', { 'if-none-match': '*' });
    expect(unchanged.statusCode).toBe(304);
    expect(unchanged.headers).toMatchObject(onData);
    expect((await api.get('/v1/me')).headers).toMatchObject(onData);
  });

  it('are sent with the response to a malformed request', async ({ client }) => {
    const [response] = await client.sendBytes('GARBAGE\r\n\r\n');
    expect(response?.status).toBe(400);
    expect(response?.headers).toMatchObject(onData);
  });

  it.for(['/docs', '/docs/', '/docs/start.js', '/docs/swagger-ui.css', '/openapi.json'])(
    'allow Swagger UI to run, but not in a frame: %s',
    async (url, { api }) => {
      const { headers } = await api.get(url);
      expect(headers).toMatchObject(onAnything);
      const policy = String(headers['content-security-policy']).split('; ');
      expect(policy).toContain("default-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy.join()).not.toMatch(/script-src|unsafe-eval|https?:|\*/);
    },
  );

  it.for(['/', '/app', '/app/customers/cus_1', '/assets/page.css', '/assets/page/browser/main.js'])(
    'let the page load and send requests within its origin alone, and are cached by tag: %s',
    async (url, { api }) => {
      const accept = { accept: 'text/html,*/*;q=0.8' };
      const { statusCode, headers } = await api.get(url, undefined, accept);
      expect(statusCode).toBe(200);
      expect(headers).toMatchObject({ ...onAnything, 'cache-control': 'no-cache' });
      const policy = String(headers['content-security-policy']).split('; ');
      expect(policy).toContain("default-src 'none'");
      expect(policy).toContain("script-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy.join()).not.toMatch(/unsafe|https?:|\*/);
      const tag = { ...accept, 'if-none-match': String(headers.etag) };
      const unchanged = await api.get(url, undefined, tag);
      expect([unchanged.statusCode, unchanged.body]).toEqual([304, '']);
    },
  );
});
