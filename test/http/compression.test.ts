import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodings, preferredEncoding } from '../../src/http/response/compression.ts';
import type { TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
import { bodyOf } from '../support/openapi.ts';
import { checkedFetch } from '../support/sockets.ts';
import { addFullShop, type FullShop } from './full-shop.ts';
import { expectRefusal } from './refusal.ts';

describe('the header Accept-Encoding', () => {
  it.each<[string | undefined, string | null]>([
    [undefined, null],
    ['', null],
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['br', 'br'],
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip;q=1.0, br;q=0.8', 'gzip'],
    ['gzip ; q=0.001', 'gzip'],
    ['gzip;q=0', null],
    ['gzip;q=0, *', 'br'],
    ['*', 'br'],
    ['*;q=0', null],
    ['identity', null],
    ['identity;q=0.5, gzip', 'gzip'],
    ['identity, gzip;q=0.5', null],
    ['identity;q=0, gzip;q=0.1', 'gzip'],
    ['deflate', null],
    ['gzip;q=high', null],
    ['xgzip', null],
    [',, ;q=1,', null],
  ])('%s results in %s', (header, encoding) => {
    expect(preferredEncoding(header)).toBe(encoding);
  });
});

describe('compressed responses', () => {
  let api: TestApi;
  let shop: FullShop;
  const failing = new PassThrough();
  const endless = new PassThrough();
  it.beforeAll(async ({ database, worker, api: ownApi }) => {
    api = ownApi;
    shop = await addFullShop(database.pool, 'Ação', 20);
    await worker.syncAll();
    await database.pool.query(`update customers set identification = repeat('é', 1000)`);
    for (const [url, stream] of [
      ['/failing', failing],
      ['/endless', endless],
    ] as const) {
      api.app.get(url, async (_request, reply) => reply.type('text/csv').send(stream));
    }
  });

  const get = (url: string, headers: Record<string, string> = {}) =>
    api.get(url, shop.secret, headers);
  const detail = () => `/v1/customers/${shop.ids.customer[0]}`;
  const stats = () => '/v1/purchases/stats?group_by=day&group_limit=50';
  const large: [string, () => string][] = [
    ['a list from Postgres', () => '/v1/customers'],
    ['a list from published files', () => '/v1/purchases'],
    ['a single resource', detail],
    ['statistics', stats],
    ['the OpenAPI document', () => '/openapi.json'],
    ['the script of Swagger UI', () => '/docs/swagger-ui-bundle.js'],
    ['an error with a long parameter name', () => `/v1/tags?${'a'.repeat(3000)}=1`],
  ];

  describe.each(large)('of %s', (_what, url) => {
    it.each(encodings)(
      'equal the plain response after decompression of %s, and are shorter',
      async (encoding) => {
        const plain = await get(url());
        const sent = await get(url(), { 'accept-encoding': encoding });
        expect(plain.headers).not.toHaveProperty('content-encoding');
        expect(sent.headers['content-encoding']).toBe(encoding);
        const withoutId = (text: string) => text.replaceAll(/req_[a-f0-9]{24}/g, '');
        expect(withoutId(bodyOf(sent))).toBe(withoutId(plain.body));
        expect(sent.rawPayload.length).toBeLessThan(plain.rawPayload.length);
        expect(sent.headers['content-length']).toBe(String(sent.rawPayload.length));
        expect(sent.statusCode).toBe(plain.statusCode);
        expect(sent.headers['content-type']).toBe(plain.headers['content-type']);
        for (const { headers } of [plain, sent]) {
          expect(
            String(headers.vary)
              .split(', ')
              .filter((name) => name === 'Accept-Encoding'),
          ).toHaveLength(1);
        }
      },
    );

    it('have the same headers for HEAD', async () => {
      const headers = { authorization: `Bearer ${shop.secret}`, 'accept-encoding': 'gzip' };
      const response = await get(url(), headers);
      const head = await api.app.inject({ method: 'HEAD', url: url(), headers });
      expect(head.body).toBe('');
      for (const name of ['content-encoding', 'content-length', 'content-type', 'etag', 'vary']) {
        if (name === 'content-length' && response.statusCode !== 200) continue;
        expect(head.headers[name], name).toBe(response.headers[name]);
      }
    });
  });

  it.each(['/v1/me', '/healthz', '/docs/favicon-32x32.png'])(
    'exclude %s, which is short or already compressed',
    async (url) => {
      const response = await get(url, { 'accept-encoding': 'gzip, br' });
      expect(response.statusCode).toBe(200);
      expect(response.headers).not.toHaveProperty('content-encoding');
    },
  );

  describe.each([
    ['a single resource', detail],
    ['statistics', stats],
  ])('of %s', (_what, url) => {
    const tagOf = (response: LightMyRequestResponse) => String(response.headers.etag);

    it('have the ETag of the plain response as a weak tag', async () => {
      const plain = tagOf(await get(url(), { 'accept-encoding': 'identity' }));
      expect(plain).toMatch(/^"[^"]+"$/);
      for (const encoding of encodings) {
        expect(tagOf(await get(url(), { 'accept-encoding': encoding }))).toBe(`W/${plain}`);
      }
    });

    it('are 304 for the tag of any encoding, strong or weak', async () => {
      const accepted = ['identity', 'gzip', 'br'];
      for (const first of accepted) {
        const tag = tagOf(await get(url(), { 'accept-encoding': first }));
        for (const encoding of accepted) {
          const fresh = await get(url(), { 'accept-encoding': encoding });
          for (const known of [tag, tag.replace('W/', ''), `"a", ${tag}`]) {
            const headers = { 'accept-encoding': encoding, 'if-none-match': known };
            const response = await get(url(), headers);
            expect(response.statusCode).toBe(304);
            expect(response.body).toBe('');
            expect(tagOf(response)).toBe(tagOf(fresh));
            expect(response.headers).not.toHaveProperty('content-encoding');
            expect(response.headers.vary).toBe(fresh.headers.vary);
          }
        }
      }
    });
  });

  it('are decompressed by fetch', async ({ client: _listening }) => {
    const origin = `http://127.0.0.1:${(api.app.server.address() as AddressInfo).port}`;
    const headers = { authorization: `Bearer ${shop.secret}` };
    const response = await checkedFetch(`${origin}/v1/purchases`, { headers });
    expect(response.headers.get('content-encoding')).toMatch(/^(br|gzip)$/);
    expect(((await response.json()) as { data: unknown[] }).data).toHaveLength(20);
  });

  it('end a stream when its client disconnects', async ({ client }) => {
    const socket = client.openSocket(
      'GET /endless HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n',
    );
    let head = '';
    socket.setEncoding('latin1').on('data', (part: string) => {
      head += part;
    });
    const incompressible = createHash('shake256', { outputLength: 200_000 }).digest('hex');
    while (!head.includes('\r\n\r\n')) {
      endless.write(incompressible);
      await sleep(5);
    }
    expect(head).toMatch(/^Content-Encoding: gzip\r$/im);
    expect(endless.destroyed).toBe(false);
    socket.destroy();
    while (!endless.destroyed) await sleep(5);
  });

  it('become an error response if a stream fails before its first byte', async () => {
    setTimeout(() => failing.destroy(new Error('broken')), 10);
    const response = await get('/failing', { 'accept-encoding': 'gzip' });
    expectRefusal(response, 'internal_error');
    expect(response.headers).not.toHaveProperty('content-encoding');
  });
});
