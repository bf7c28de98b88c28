import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import type { Shop } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { connectionsOf } from '../support/sockets.ts';
import { loggedTest } from './logged-test.ts';

/** Waits until so many statements of the API wait for a lock. */
const it = loggedTest.extend('untilWaiting', ({ database }) => async (count: number) => {
  const waiting = `select from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  while ((await database.pool.query(waiting)).rowCount !== count) await sleep(10);
});

const requestOf = (url: string, { secret }: Shop) =>
  `GET ${url} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`;

describe('a client disconnect', () => {
  it.beforeEach(({ recorded: { lines } }) => {
    lines.length = 0;
  });

  it.for([
    ['tags', '/v1/tags'],
    ['customers', '/v1/customers?q=silva'],
    ['segments', '/v1/segments/seg_3vW8kQmZ'],
    ['purchases', '/v1/purchases'],
    ['purchases', '/v1/purchases/stats'],
  ] as const)(
    'leaves no statement on %s running: %s',
    async ([table, url], {
      database,
      client,
      shop,
      untilWaiting,
      recorded: { lines },
      onTestFinished,
    }) => {
      const unlock = await lockTables(database.pool, table);
      onTestFinished(unlock);
      const socket = client.openSocket(requestOf(url, shop));
      await untilWaiting(1);
      socket.destroy();
      await untilWaiting(0);
      expect((await database.pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      while (!lines.some((line) => line.includes('client disconnected'))) await sleep(10);
      expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
    },
  );

  it.for(['/v1/tags', '/v1/purchases'])(
    'during the key check is no error: %s',
    async (url, { database, api, client, shop, untilWaiting, recorded: { lines } }) => {
      const others = await connectionsOf(api.app);
      const unlock = await lockTables(database.pool, 'organizations');
      const socket = client.openSocket(requestOf(url, shop));
      await untilWaiting(1);
      socket.destroy();
      while ((await connectionsOf(api.app)) > others) await sleep(5);
      await unlock();
      while (!lines.some((line) => line.includes('client disconnected'))) await sleep(10);
      expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
    },
  );
});

describe('a client that ends its side of the connection after the request', () => {
  it.for(['/v1/tags', '/v1/purchases', '/v1/purchases/stats', '/v1/purchases/export?format=csv'])(
    'gets its response, however long that takes: %s',
    async (url, { database, client, shop, untilWaiting }) => {
      const unlock = await lockTables(database.pool, url === '/v1/tags' ? 'tags' : 'purchases');
      const socket = client.openSocket(requestOf(url, shop));
      await untilWaiting(1);
      const received: string[] = [];
      socket.setEncoding('latin1').on('data', (part: string) => received.push(part));
      socket.end();
      // The server has seen the end of the request.
      while (!received.join('').includes('100 Continue')) await sleep(10);
      await unlock();
      await new Promise((resolve) => socket.once('end', resolve));
      expect(received.join('')).toMatch(/^(HTTP\/1\.1 100 Continue\r\n\r\n)+HTTP\/1\.1 200 OK\r\n/);
    },
  );

  it('gets the responses to all of its requests', async ({ client, shop }) => {
    const bytes = ['/v1/tags', '/v1/purchases/stats', '/v1/me'].map((url) => requestOf(url, shop));
    const socket = client.openSocket(bytes.join(''));
    socket.end();
    const received: string[] = [];
    for await (const part of socket) received.push(String(part));
    expect(received.join('').match(/HTTP\/1\.1 200 OK/g)).toHaveLength(3);
  });
});
