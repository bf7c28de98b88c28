import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { test as it } from '../support/fixtures.ts';
import { addKey } from '../support/shop.ts';
import type { SocketClient } from '../support/sockets.ts';

type Socket = ReturnType<SocketClient['openSocket']>;

describe('connections', () => {
  describe('of a request with a body are closed after the response, without reading the body', () => {
    const bodies = [
      ['an unfinished body', 'Content-Length: 1000\r\n\r\nx'],
      ['an unfinished chunked body', 'Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n'],
      ['a body that is not sent yet', 'Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n'],
    ] as const;

    it.for(bodies)(
      '%s, in the order of refusals',
      async ([_name, body], { database, shop, startServer }) => {
        const { client } = await startServer({ rateLimitPerMinute: 1 });
        const reading = await addKey(database.pool, shop.organizationId);
        const writing = await addKey(database.pool, shop.organizationId, { scopes: ['write'] });
        const refusals = [
          ['GET /v1/me', '', 401],
          ['GET /v1/%ZZ', '', 401],
          ['POST /v1/nothing', '', 401],
          ['GET /v1/tags?limit=x', reading.secret, 400],
          ['GET /v1/tags', reading.secret, 429],
          ['GET /v1/me', writing.secret, 403],
        ] as const;
        for (const [request, secret, status] of refusals) {
          const head = `${request} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n`;
          const [response, ...others] = await client.sendBytes(head + body);
          expect([request, response?.status]).toEqual([request, status]);
          expect(response?.headers.connection).toBe('close');
          expect(others).toEqual([]);
        }
      },
    );
  });

  it.for([
    ['sends nothing', ''],
    ['does not finish its headers', 'GET /v1/me HTTP/1.1\r\nHost: a\r\n'],
    ['sends invalid HTTP and stays connected', 'GARBAGE\r\n\r\n'],
  ] as const)(
    'of a client that %s are closed',
    { tags: ['slow'] },
    async ([_name, bytes], { startServer }) => {
      const { server, client } = await startServer({ requestTimeoutMs: 200 });
      const connected = once(server, 'connection') as Promise<[Socket]>;
      const socket = client.openSocket(bytes);
      const [connection] = await connected;
      await once(connection, 'close');
      socket.destroy();
    },
  );

  it('whose request does not arrive in time receive 400', async ({ startServer }) => {
    const { client } = await startServer({ requestTimeoutMs: 200 });
    const [response] = await client.sendBytes('GET /v1/me HTTP/1.1\r\nHost: a\r\n');
    expect(response?.status).toBe(400);
    expect(JSON.parse(response?.body ?? '').error).toMatchObject({
      type: 'invalid_request',
      message: expect.stringContaining('in time'),
    });
  });

  /** The socket after its first response, or null if the server has closed the connection. */
  async function connectAndSend(client: SocketClient): Promise<Socket | null> {
    const socket = client.openSocket('GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n');
    const closed = new Promise<null>((resolve) => socket.once('close', () => resolve(null)));
    const responded = new Promise<Socket>((resolve) => socket.once('data', () => resolve(socket)));
    return Promise.race([responded, closed]);
  }

  it('are bounded for each address', async ({ startServer }) => {
    const connectionsPerAddress = 5;
    const { client } = await startServer({ connectionsPerAddress });
    const sockets: Socket[] = [];
    for (let count = 0; count <= connectionsPerAddress; count += 1) {
      const socket = await connectAndSend(client);
      if (socket !== null) sockets.push(socket);
    }
    expect(sockets.length).toBeGreaterThan(0);
    expect(sockets.length).toBeLessThanOrEqual(connectionsPerAddress);

    sockets.pop()?.destroy();
    let next: Socket | null = null;
    while (next === null) {
      next = await connectAndSend(client);
      await sleep(5);
    }
    for (const socket of [...sockets, next]) socket.destroy();
  });

  it.for(['127.0.0.1', '127.0.0.0/8'])(
    'are not bounded for the trusted proxy %s',
    async (proxy, { startServer }) => {
      const { client } = await startServer({ connectionsPerAddress: 1, trustedProxies: [proxy] });
      const sockets: (Socket | null)[] = [];
      for (let count = 0; count < 5; count += 1) sockets.push(await connectAndSend(client));
      expect(sockets).not.toContain(null);
      for (const socket of sockets) socket?.destroy();
    },
  );
});
