import { createServer } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { describe, expect, inject, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { AppOptions } from '../../src/http/app.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { administer, type TestDatabase } from '../support/postgres.ts';
import { createPostgresProxy } from '../support/postgres-proxy.ts';
import { createWorkerRole, type TestRole } from '../support/role.ts';
import { testServices } from '../support/services.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { recordedLog } from './recorded-log.ts';
import { expectRefusal } from './refusal.ts';

const routes = [
  '/v1/me',
  '/v1/purchases',
  '/v1/purchases/pur_nobody',
  '/v1/purchases/stats',
  '/v1/customers/cus_nobody/purchases',
];

const { databaseSilenceMs } = readSettings({});

describe('the API during an outage of Postgres', () => {
  let database: TestDatabase;
  let secret: string;
  const running: { app: FastifyInstance; pool: Database }[] = [];
  it.beforeEach(async ({ database: ownDatabase, shop }) => {
    database = ownDatabase;
    ({ secret } = shop);
    return async () => {
      for (const { app, pool } of running.splice(0)) {
        await app.close();
        await pool.end();
      }
      await allowConnections();
    };
  });

  function start(databaseUrl: string, options: Partial<AppOptions> = {}) {
    const { log, lines } = recordedLog();
    const pool = createPool(databaseUrl, { max: 3, applicationName: 'test' });
    const app = createCheckedApp({
      services: testServices(pool, createPostgresEngine(pool)),
      rateLimitPerMinute: 1_000_000,
      failedKeysPerMinute: 1_000_000,
      log,
      ...options,
    });
    running.push({ app, pool });
    const get = async (url: string, key: string | null = secret) =>
      app.inject({
        method: 'GET',
        url,
        headers: key === null ? {} : { authorization: `Bearer ${key}` },
      });
    return { app, get, lines };
  }

  const name = () => new URL(database.url).pathname.slice(1);

  async function refuseConnections() {
    await administer(
      inject('postgresUrl'),
      `alter database ${name()} with allow_connections false`,
    );
    await administer(
      inject('postgresUrl'),
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name()}'`,
    );
  }
  async function allowConnections() {
    await administer(inject('postgresUrl'), `alter database ${name()} with allow_connections true`);
  }

  /** Requires 500 with Retry-After, which is in the header only, and without details of the outage. */
  async function expectOutage(get: ReturnType<typeof start>['get'], urls: readonly string[]) {
    const { hostname, port } = new URL(database.url);
    const details = new RegExp(
      `${name()}|${hostname}|${port}|ECONN|pg_|postgres|database|connection|select|at /`,
      'i',
    );
    const ids: string[] = [];
    for (const response of await Promise.all(urls.map((url) => get(url)))) {
      const { error } = expectRefusal(response, 'internal_error');
      expect(error.message).not.toMatch(details);
      expect(response.headers['retry-after']).toBe('1');
      expect(response.headers).not.toHaveProperty('etag');
      ids.push(error.request_id);
    }
    return ids;
  }

  it('responds 500 without details, and logs the cause once with the number of requests, for each cause of an outage', {
    tags: ['slow'],
  }, async () => {
    const role = `limited_${name()}`;
    const server = inject('postgresUrl');
    await administer(server, `create role ${role} login password 'secret' connection limit 0`);
    const urlWith = (changes: Partial<URL>) =>
      Object.assign(new URL(database.url), changes).href as string;
    const connected = start(database.url);
    expect((await connected.get('/v1/me')).statusCode).toBe(200);
    try {
      for (const [{ app, get, lines }, code] of [
        [start(urlWith({ port: String(await closedPort()) })), 'ECONNREFUSED'],
        [start(urlWith({ username: role, password: 'secret' })), '53300'],
        [start(urlWith({ username: 'nobody', password: 'wrong' })), '28'],
        [start(urlWith({ pathname: '/nowhere' })), '3D000'],
        // Postgres ends the connections, and refuses new ones.
        [connected, '55000'],
      ] as const) {
        if (code === '55000') await refuseConnections();
        const ids = await expectOutage(get, [...routes, ...routes]);
        await app.close();
        const logged = lines.map((line) => JSON.parse(line));
        const completed = logged.filter(({ status }) => status === 500);
        expect(completed.map(({ reqId }) => reqId).sort()).toEqual(ids.sort());
        const failed = logged.filter(({ msg }) => msg === 'request failed');
        expect(failed.map(({ level, err }) => [level, err.code])).toContainEqual([
          50,
          expect.stringMatching(`^${code}`),
        ]);
        const others = logged.filter(({ msg }) => msg === 'requests failed');
        for (const line of others) expect(Object.keys(line)).not.toContain('err');
        const counted = others.reduce((sum, { requests }) => sum + requests, 0);
        expect(ids).toContain(failed[0].reqId);
        expect(failed.length + counted).toBe(ids.length);
      }
    } finally {
      await administer(server, `drop role ${role}`);
    }
  });

  it.each(['memory', 'postgres'] as const)(
    'responds to each of many requests while Postgres is frozen (limits in %s)',
    { tags: ['slow'] },
    async (rateLimitStore) => {
      const proxy = await createPostgresProxy(database.url);
      try {
        const { get } = start(proxy.url, { rateLimitStore, databaseSilenceMs });
        // Some connections are open, and others are opened meanwhile.
        await Promise.all([get('/v1/me'), get('/v1/purchases')]);
        proxy.mode = 'discard';
        proxy.freeze();
        const many = Array.from({ length: 20 }, () => routes).flat();
        await expectOutage(get, many);
        await expectOutage(get, routes);
        if (rateLimitStore === 'postgres') {
          const counted = await get('/v1/me', 'crm_live_wrong');
          expectRefusal(counted, 'internal_error');
          expect(counted.headers['retry-after']).toBe('1');
        }
      } finally {
        await proxy.close();
      }
    },
  );

  it('waits for a slow key check while Postgres responds to others', {
    tags: ['slow'],
  }, async () => {
    const { get } = start(database.url, { rateLimitStore: 'postgres', databaseSilenceMs: 1_500 });
    const { secret: another } = await addKey(database.pool, await addOrganization(database.pool));
    expect((await get('/v1/me')).statusCode).toBe(200);
    const blocking = await database.pool.connect();
    await blocking.query(`begin; select from rate_limits for update`);
    const slow = get('/v1/me');
    let isOver = false;
    // Longer than `databaseSilenceMs`.
    const pause = database.pool.query('select pg_sleep(3)').then(() => {
      isOver = true;
    });
    while (!isOver) expect((await get('/v1/me', another)).statusCode).toBe(200);
    await pause;
    await blocking.query('rollback');
    blocking.release();
    expect((await slow).statusCode).toBe(200);
  });

  it('still responds 401 to a malformed key', async () => {
    const { get } = start(database.url);
    await refuseConnections();
    expectRefusal(await get('/v1/me', null), 'authentication_error');
    expectRefusal(await get('/v1/me', `${secret}x`), 'authentication_error');
  });

  it.for([
    [
      'Postgres refused the connection (SQLSTATE 55000). ' +
        'Allow connections: `alter database … with allow_connections true`.',
      refuseConnections,
    ],
    [
      'The role of DATABASE_URL lacks rights on segments.',
      (role: TestRole) => database.pool.query(`revoke select on segments from ${role.name}`),
    ],
    [
      'The table api_keys is not in the schema public.',
      () => database.pool.query('alter table api_keys rename to keys_of_the_api'),
    ],
  ] as const)('is reported by /readyz, and not by /healthz: %s', async ([problem, cause]) => {
    const role = await createWorkerRole(database);
    try {
      const { get } = start(role.url);
      expect((await get('/readyz', null)).statusCode).toBe(200);
      await cause(role);
      // The pool may use a connection that Postgres is ending.
      await expect
        .poll(async () => (await get('/readyz', null)).json())
        .toEqual({ status: 'unavailable', problem });
      expect((await get('/readyz', null)).statusCode).toBe(503);
      expect((await get('/healthz', null)).statusCode).toBe(200);
    } finally {
      await allowConnections();
      await role.drop();
    }
  });

  it('recovers without a restart when Postgres is back', async () => {
    const { get } = start(database.url);
    expect((await get('/v1/me')).statusCode).toBe(200);
    await refuseConnections();
    expectRefusal(await get('/v1/me'), 'internal_error');
    await allowConnections();
    for (const url of ['/v1/me', '/v1/purchases', '/v1/purchases/stats']) {
      await vi.waitFor(async () => expect((await get(url)).statusCode).toBe(200), 120_000);
    }
  });

  it('survives the loss of idle connections', async () => {
    const { get } = start(database.url);
    await Promise.all(routes.map((url) => get(url)));
    await administer(
      inject('postgresUrl'),
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name()}'`,
    );
    await vi.waitFor(
      async () => expect((await get('/v1/purchases')).statusCode).toBe(200),
      120_000,
    );
  });
});

/** A port of this machine that nothing listens on. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}
