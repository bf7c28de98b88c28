import { createHash } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { preferredEncoding } from '../../src/http/response/compression.ts';
import type { TestApi } from '../support/api.ts';
import { test as it } from '../support/fixtures.ts';
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

describe('compressed streams', () => {
  let api: TestApi;
  const failing = new PassThrough();
  const endless = new PassThrough();
  it.beforeAll(async ({ api: ownApi }) => {
    api = ownApi;
    for (const [url, stream] of [
      ['/failing', failing],
      ['/endless', endless],
    ] as const) {
      api.app.get(url, async (_request, reply) => reply.type('text/csv').send(stream));
    }
  });

  it('end when their client disconnects', async ({ client }) => {
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

  it('become an error response if they fail before their first byte', async () => {
    setTimeout(() => failing.destroy(new Error('broken')), 10);
    const response = await api.get('/failing', undefined, { 'accept-encoding': 'gzip' });
    expectRefusal(response, 'internal_error');
    expect(response.headers).not.toHaveProperty('content-encoding');
  });
});
