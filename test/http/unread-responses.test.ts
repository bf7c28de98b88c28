import { once } from 'node:events';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { addCustomer, addKey } from '../support/shop.ts';
import type { SocketClient } from '../support/sockets.ts';

type Socket = ReturnType<SocketClient['openSocket']>;

const mebibyte = 2 ** 20;
/** More than the kernel buffers for a client that does not read. */
const largeBytes = 12 * mebibyte;

describe('responses that clients do not read', () => {
  let large: string;

  const it = test.extend('headersOf', ({ database, shop }) => async () => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    return { authorization: `Bearer ${secret}` };
  });

  it.beforeAll(async ({ database, shop }) => {
    const customerId = await addCustomer(database.pool, shop.organizationId);
    await database.pool.query(
      `update customers set attributes = jsonb_build_object('text', repeat('x', $1)) where id = $2`,
      [largeBytes, customerId],
    );
    large = `/v1/customers/${encodeId('customer', customerId)}`;
  });
  const requestBytes = (url: string, { authorization }: { authorization: string }) =>
    `GET ${url} HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n\r\n`;

  /** Sends requests, and reads only the first bytes of the first response. */
  async function sendWithoutReading(client: SocketClient, bytes: string): Promise<Socket> {
    const socket = client.openSocket(bytes);
    await once(socket, 'readable');
    return socket;
  }

  async function untilAccepted(client: SocketClient, headers: { authorization: string }) {
    for (;;) {
      const { status } = await client.send({ method: 'GET', url: large, headers });
      if (status === 200) return;
    }
  }

  it('are bounded for each API key, and a further one is 429', { tags: ['slow'] }, async ({
    startServer,
    headersOf,
  }) => {
    const { client } = await startServer({ unreadBytesPerKey: largeBytes + mebibyte });
    const [headers, otherHeaders] = [await headersOf(), await headersOf()];
    const socket = await sendWithoutReading(client, requestBytes(large, headers));

    const refused = await client.send({ method: 'GET', url: large, headers });
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '1']);
    expect(refused.headers).not.toHaveProperty('etag');
    expect(JSON.parse(refused.body)).toMatchObject({
      error: { type: 'rate_limited', message: expect.stringContaining('not read') },
      retry_after: 1,
    });
    const small = await client.send({ method: 'GET', url: '/v1/me', headers });
    expect(small.status).toBe(200);
    const other = await client.send({ method: 'GET', url: large, headers: otherHeaders });
    expect(other.status).toBe(200);

    socket.destroy();
    await untilAccepted(client, headers);
  });

  it('do not count when the client has read them, and one alone may exceed the bound', {
    tags: ['slow'],
  }, async ({ startServer, headersOf }) => {
    const { client } = await startServer({ unreadBytesPerKey: mebibyte });
    const headers = await headersOf();
    for (let count = 0; count < 2; count += 1) await untilAccepted(client, headers);
    const socket = await sendWithoutReading(client, requestBytes(large, headers));
    expect((await client.send({ method: 'GET', url: large, headers })).status).toBe(429);
    socket.destroy();
    await untilAccepted(client, headers);
  });

  it('do not count after a disconnect, also if they are pipelined', { tags: ['slow'] }, async ({
    startServer,
    headersOf,
  }) => {
    const { server, client } = await startServer({ unreadBytesPerKey: 3 * largeBytes + mebibyte });
    const headers = await headersOf();
    const responses: { readonly writableEnded: boolean }[] = [];
    server.on('request', (_request, response) => responses.push(response));
    const socket = await sendWithoutReading(client, requestBytes(large, headers).repeat(3));
    await expect
      .poll(() => responses.map(({ writableEnded }) => writableEnded))
      .toEqual([true, true, true]);
    expect((await client.send({ method: 'GET', url: large, headers })).status).toBe(429);
    socket.destroy();
    for (let unread = 0; unread < 2; unread += 1) {
      await untilAccepted(client, headers);
      await sendWithoutReading(client, requestBytes(large, headers));
    }
    await untilAccepted(client, headers);
  });

  it('have their connection closed', { tags: ['slow'] }, async ({ startServer, headersOf }) => {
    const { server, client } = await startServer({ queryTimeoutMs: 200 });
    const connected = once(server, 'connection') as Promise<[Socket]>;
    const socket = client.openSocket(requestBytes(large, await headersOf()));
    const [connection] = await connected;
    await once(connection, 'close');
    socket.destroy();
  });

  it('do not have their connection closed before there is a response', async ({
    database,
    startServer,
    headersOf,
  }) => {
    const { server, client } = await startServer({ queryTimeoutMs: 200 });
    const headers = await headersOf();
    const unlock = await lockTables(database.pool, 'tags');
    const connected = once(server, 'connection') as Promise<[Socket]>;
    const response = client.send({ method: 'GET', url: '/v1/tags', headers });
    const [connection] = await connected;
    await once(connection, 'timeout');
    await unlock();
    expect((await response).status).toBe(200);
  });
});
