import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';

describe('security headers', () => {
  const onAnything = {
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'same-origin',
  };
  it('are sent with the response to a malformed request', async ({ client }) => {
    const [response] = await client.sendBytes('GARBAGE\r\n\r\n');
    expect(response?.status).toBe(400);
    expect(response?.headers).toMatchObject(onAnything);
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
      // The hash is that of the page's import map.
      expect(policy).toContainEqual(expect.stringMatching(/^script-src 'self' 'sha256-[\w+/]+='$/));
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy.join()).not.toMatch(/unsafe|https?:|\*/);
      const tag = { ...accept, 'if-none-match': String(headers.etag) };
      const unchanged = await api.get(url, undefined, tag);
      expect([unchanged.statusCode, unchanged.body]).toEqual([304, '']);
    },
  );
});
