import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance } from 'fastify';
import { afterAll, describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createPool, type Database } from '../../src/postgres/pool.ts';
import { type Shop, test } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { testServices } from '../support/services.ts';
import { connectionsOf, connectTo, type SocketClient } from '../support/sockets.ts';
import { recordedLog } from './recorded-log.ts';

const it = test
  /** The number of statements of the API that wait for a lock. */
  .extend('waiting', ({ database }) => async (): Promise<number> => {
    const { rows } = await database.pool.query(
      `select from pg_stat_activity
       where application_name = 'client disconnect' and wait_event_type = 'Lock'`,
    );
    return rows.length;
  })
  .extend('untilWaiting', ({ waiting }) => async (count: number) => {
    while ((await waiting()) !== count) await sleep(10);
  });

const requestOf = (url: string, { secret }: Shop) =>
  `GET ${url} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`;

describe('a client disconnect', () => {
  const { log, lines } = recordedLog();
  let pool: Database;
  let app: FastifyInstance;
  let client: SocketClient;
  it.beforeAll(async ({ database }) => {
    pool = createPool(database.url, { max: 2, applicationName: 'client disconnect' });
    app = createCheckedApp({
      services: testServices(pool, createPostgresEngine(pool)),
      rateLimitPerMinute: 1_000_000,
      failedKeysPerMinute: 1_000_000,
      log,
    });
    await app.listen({ host: '127.0.0.1', port: 0 });
    client = await connectTo((app.server.address() as AddressInfo).port);
  });
  afterAll(async () => {
    client.close();
    await app.close();
    await pool.end();
  });

  it.for([
    ['tags', '/v1/tags'],
    ['customers', '/v1/customers?q=silva'],
    ['segments', '/v1/segments/seg_3vW8kQmZ'],
    ['purchases', '/v1/purchases'],
    ['purchases', '/v1/purchases/stats'],
  ] as const)(
    'leaves no statement on %s running: %s',
    async ([table, url], { database, shop, untilWaiting, onTestFinished }) => {
      const unlock = await lockTables(database.pool, table);
      onTestFinished(unlock);
      const socket = client.openSocket(requestOf(url, shop));
      await untilWaiting(1);
      socket.destroy();
      await untilWaiting(0);
      expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      while (!lines.some((line) => line.includes('client disconnected'))) await sleep(10);
      expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
    },
  );

  it.for(['/v1/tags', '/v1/purchases'])(
    'during the key check is no error: %s',
    async (url, { database, shop, untilWaiting }) => {
      lines.length = 0;
      const others = await connectionsOf(app);
      const unlock = await lockTables(database.pool, 'organizations');
      const socket = client.openSocket(requestOf(url, shop));
      await untilWaiting(1);
      socket.destroy();
      while ((await connectionsOf(app)) > others) await sleep(5);
      await unlock();
      while (!lines.some((line) => line.includes('client disconnected'))) await sleep(10);
      expect(lines.filter((line) => line.includes('"level":50'))).toEqual([]);
    },
  );
});
