import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import type { TestApi } from '../support/api.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { connectionsOf } from '../support/sockets.ts';

const it = isolatedTest.extend(
  'requestBytes',
  ({ shop }) =>
    () =>
      `GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${shop.secret}\r\n\r\n`,
);

async function untilConnections({ app }: TestApi, others: number): Promise<void> {
  while ((await connectionsOf(app)) > others) await sleep(5);
}

/** Resolves when a key check waits for a lock. */
async function untilKeyIsChecked({ pool }: TestDatabase): Promise<void> {
  const waiting = `select from pg_locks join pg_stat_activity using (pid)
    where not granted and datname = current_database()`;
  while ((await pool.query(waiting)).rowCount === 0) await sleep(5);
}

describe('an API on sockets', () => {
  it('survives CONNECT requests whose connections are reset', async ({ api, client, get }) => {
    const others = await connectionsOf(api.app);
    for (let round = 0; round < 5; round += 1) {
      const socket = client.openSocket('CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n');
      await once(socket, 'data');
      socket.resetAndDestroy();
    }
    await untilConnections(api, others);
    expect((await get('/v1/me')).statusCode).toBe(200);
  });

  it.for([
    ['has sent nothing', ''],
    ['has sent half a request', 'GET / HTTP/1.1\r\nHo'],
    ['has sent CONNECT', 'CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n'],
  ] as const)(
    'stops although the client of an open connection %s',
    { tags: ['slow'] },
    async ([_, bytes], { api, client }) => {
      const socket = client.openSocket(bytes);
      const [connection] = (await once(api.app.server, 'connection')) as [
        { readonly bytesRead: number },
      ];
      while (connection.bytesRead < bytes.length) await sleep(5);
      await api.close();
      socket.destroy();
    },
  );

  it('stops although a client has disconnected with a pipelined request', async ({
    database,
    api,
    client,
    requestBytes,
  }) => {
    const others = await connectionsOf(api.app);
    const unlock = await lockTables(database.pool, 'api_keys');
    const leaving = client.openSocket(requestBytes() + requestBytes());
    await untilKeyIsChecked(database);
    leaving.destroy();
    await untilConnections(api, others);
    await unlock();
    const quiet = client.openSocket('');
    await once(api.app.server, 'connection');
    await api.close();
    quiet.destroy();
  });

  it('responds to requests that arrive during shutdown, and then closes the connection', async ({
    database,
    api,
    client,
    requestBytes,
  }) => {
    const socket = client.openSocket('');
    const received = text(socket);
    // A lock on the keys delays a response.
    const unlock = await lockTables(database.pool, 'api_keys');
    socket.write(requestBytes());
    await untilKeyIsChecked(database);
    const closing = api.close();
    while (api.app.server.listening) await sleep(5);
    socket.write(requestBytes());
    await unlock();
    const responses = await received;
    expect(responses.match(/HTTP\/1\.1 \d+/g)?.[0]).toBe('HTTP/1.1 200');
    expect(responses).not.toContain('HTTP/1.1 503');
    await closing;
  });
});
