import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import type { SocketClient, SocketResponse } from '../support/sockets.ts';

describe('over a socket', () => {
  let client: SocketClient;
  let authorization: string;
  it.beforeAll(({ client: ownClient, shop }) => {
    client = ownClient;
    authorization = `Host: test\r\nConnection: close\r\nAuthorization: Bearer ${shop.secret}\r\n`;
  });

  /** Sends bytes unchanged, and returns the only response. */
  async function exchange(bytes: string): Promise<SocketResponse> {
    const responses = await client.sendBytes(bytes);
    expect(responses).toHaveLength(1);
    return responses[0] as SocketResponse;
  }

  const malformed = [
    ['invalid HTTP', () => 'GARBAGE\r\n\r\n'],
    ['an unknown version of HTTP', () => `GET /v1/me HTTP/7.0\r\n${authorization}\r\n`],
    ['an unknown method', () => `FETCH /v1/me HTTP/1.1\r\n${authorization}\r\n`],
    ['a malformed header', () => `GET /v1/me HTTP/1.1\r\n${authorization}no colon\r\n\r\n`],
    ['a control character in the URL', () => `GET /v1/me?a=\x01 HTTP/1.1\r\n${authorization}\r\n`],
    ['an expectation', () => `GET /v1/me HTTP/1.1\r\n${authorization}Expect: more\r\n\r\n`],
    ['a tunnel', () => `CONNECT host:1 HTTP/1.1\r\n${authorization}\r\n`],
    ['a request without a host', () => 'GET /v1/me HTTP/1.1\r\nConnection: close\r\n\r\n'],
    ['a request with two hosts', () => `GET /v1/me HTTP/1.1\r\n${authorization}Host: b\r\n\r\n`],
    [
      'two lengths of a body',
      () =>
        `GET /v1/me HTTP/1.1\r\n${authorization}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab`,
    ],
    [
      'a broken chunk',
      () => `GET /v1/me HTTP/1.1\r\n${authorization}Transfer-Encoding: chunked\r\n\r\nzz\r\n`,
    ],
  ] as const;

  /** These requests reach no route. Their error has the body of section 7 too. */
  function expectInvalidRequest(response: SocketResponse): void {
    expect(response.status).toBe(400);
    expect(JSON.parse(response.body)).toStrictEqual({
      error: {
        type: 'invalid_request',
        message: expect.stringMatching(/\S/),
        request_id: expect.stringMatching(/^req_[a-f0-9]{24}$/),
      },
    });
    expect(response.headers['request-id']).toBe(JSON.parse(response.body).error.request_id);
    expect(response.headers).toMatchObject({
      'content-type': expect.stringMatching(/^application\/json/),
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-resource-policy': 'same-origin',
    });
  }

  it.each(malformed)(
    '%s is refused with 400, and the connection is closed',
    async (_name, bytes) => {
      const response = await exchange(bytes());
      expectInvalidRequest(response);
      expect(response.body).not.toMatch(/HPE_|parse error|\.js/i);
    },
  );

  it.each([
    ['/v1/purchases?utm_campaign=Promo\u00e7\u00e3o', 'percent-encode'],
    ['/v1/customers?q=a b', 'percent-encode'],
    ['/v1/purchases/stats#status=paid', 'write it as %23'],
  ])('%s is refused with how to write it', async (url, advice) => {
    const response = await exchange(`GET ${url} HTTP/1.1\r\n${authorization}\r\n`);
    expectInvalidRequest(response);
    expect(JSON.parse(response.body).error.message).toContain(advice);
  });

  // Not a hexadecimal digit: a request id in the response cannot contain it.
  const tooLong = 'z'.repeat(100_000);
  const oversized = [
    ['header', () => `GET /v1/me HTTP/1.1\r\n${authorization}X: ${tooLong}\r\n\r\n`],
    ['URL', () => `GET /v1/me?a=${tooLong} HTTP/1.1\r\n${authorization}\r\n`],
  ] as const;

  it.each([
    ['cannot be parsed', () => `HEAD /v1/me HTTP/1.1\r\n${authorization}no colon\r\n\r\n`],
    ['expects something', () => `HEAD /v1/me HTTP/1.1\r\n${authorization}Expect: x\r\n\r\n`],
  ])('a HEAD request that %s is refused without a body', async (_which, bytes) => {
    const response = await exchange(bytes());
    expect([response.status, response.body]).toEqual([400, '']);
    expect(response.headers['request-id']).toMatch(/^req_/);
  });

  it.each([
    ['cannot be parsed', 'GARBAGE\r\n\r\n'],
    ['expects something', 'GET /v1/me HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n'],
  ])(
    'a request that %s is refused after the response to the one before it',
    async (_which, bytes) => {
      const first = `GET /v1/me HTTP/1.1\r\n${authorization.replace('Connection: close\r\n', '')}\r\n`;
      const [response, refusal] = await client.sendBytes(first + bytes);
      expect(response?.status).toBe(200);
      expect(JSON.parse(response?.body ?? '')).toMatchObject({ object: 'identity' });
      expectInvalidRequest(refusal as SocketResponse);
    },
  );

  it.each(['http://a/v1/%ZZ', '/%761/%ZZ', '/v1/%ZZ'])('%s requires a key first', async (url) => {
    const response = await exchange(`GET ${url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`);
    expect(response.status).toBe(401);
  });

  it.each(oversized)(
    'a %s that is too long is refused, and the connection is closed',
    async (_name, bytes) => {
      const response = await exchange(bytes());
      expectInvalidRequest(response);
      expect(response.body).not.toContain('zzzz');
      expect(response.body).toContain('take more than 16 KiB');
    },
  );

  it('a request may have 2,500 headers', async () => {
    const many = 'a:\r\n'.repeat(2_500);
    const response = await exchange(`GET /v1/me HTTP/1.1\r\n${many}${authorization}\r\n`);
    expect(response.status).toBe(200);
  });

  it('HEAD and 304 have no body', async () => {
    for (const [method, condition, status] of [
      ['HEAD', 'X: a', 200],
      ['HEAD', 'If-None-Match: *', 304],
      ['GET', 'If-None-Match: *', 304],
    ] as const) {
      const bytes = `${method} /v1/me HTTP/1.1\r\n${authorization}${condition}\r\n\r\n`;
      const response = await exchange(bytes);
      expect([response.status, response.body]).toEqual([status, '']);
    }
  });

  it('the absolute form of a URL is the same request', async () => {
    const plain = await exchange(`GET /v1/me HTTP/1.1\r\n${authorization}\r\n`);
    const absolute = await exchange(`GET http://test/v1/me HTTP/1.1\r\n${authorization}\r\n`);
    expect(absolute.status).toBe(200);
    expect(absolute.body).toBe(plain.body);
  });
});
