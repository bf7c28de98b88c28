import { createServer } from 'node:net';
import type { FastifyInstance } from 'fastify';
import { describe, expect, inject, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { AppOptions } from '../../src/http/app.ts';
import { createPool, type Database } from '../../src/postgres/pool.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { administer, type TestDatabase } from '../support/postgres.ts';
import { createPostgresProxy } from '../support/postgres-proxy.ts';
import { createWorkerRole } from '../support/role.ts';
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
    return { get, lines };
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

  /** Details of the outage, which no response may contain. */
  function details(): RegExp {
    const { hostname, port } = new URL(database.url);
    return new RegExp(
      `${name()}|${hostname}|${port}|ECONN|pg_|postgres|database|connection|select|at /`,
      'i',
    );
  }

  /** Requires 500 with Retry-After, which is in the header only. */
  async function expectOutage(get: ReturnType<typeof start>['get'], urls: readonly string[]) {
    for (const response of await Promise.all(urls.map((url) => get(url)))) {
      expectRefusal(response, 'internal_error');
      expect(response.headers['retry-after']).toBe('1');
    }
  }

  it('responds 500 without details if Postgres refuses connections', async () => {
    const nowhere = new URL(database.url);
    nowhere.port = String(await closedPort());
    const { get } = start(nowhere.href);
    for (const url of routes) {
      const response = await get(url);
      const { error } = expectRefusal(response, 'internal_error');
      expect(error.message).not.toMatch(details());
      expect(response.headers).not.toHaveProperty('etag');
    }
  });

  it('sends Retry-After, as a header only, for each cause of an outage', {
    tags: ['slow'],
  }, async () => {
    const role = `limited_${name()}`;
    const server = inject('postgresUrl');
    await administer(server, `create role ${role} login password 'secret' connection limit 0`);
    try {
      const urlWith = (changes: Partial<URL>) =>
        Object.assign(new URL(database.url), changes).href as string;
      for (const [url, code] of [
        [urlWith({ port: String(await closedPort()) }), 'ECONNREFUSED'],
        [urlWith({ username: role, password: 'secret' }), '53300'],
        [urlWith({ username: 'nobody', password: 'wrong' }), '28'],
        [urlWith({ pathname: '/nowhere' }), '3D000'],
      ] as const) {
        const { get, lines } = start(url);
        await expectOutage(get, ['/v1/me']);
        expect(lines.join('')).toContain(`"code":"${code}`);
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

  it('responds 500 without details if Postgres ends its connections and refuses new ones', {
    tags: ['slow'],
  }, async () => {
    const { get } = start(database.url);
    expect((await get('/v1/me')).statusCode).toBe(200);
    await refuseConnections();
    for (const url of routes) {
      const { error } = expectRefusal(await get(url), 'internal_error');
      expect(error.message).not.toMatch(details());
    }
    await expectOutage(get, routes);
  });

  it('logs the cause of each failure with its request id', { tags: ['slow'] }, async () => {
    const { get, lines } = start(database.url);
    await refuseConnections();
    const { error } = expectRefusal(await get('/v1/me'), 'internal_error');
    const logged = lines.map((line) => JSON.parse(line)).filter(({ err }) => err !== undefined);
    expect(logged).toMatchObject([
      { level: 50, reqId: error.request_id, err: { message: expect.stringContaining(name()) } },
    ]);
  });

  it('still responds 401 to a malformed key', async () => {
    const { get } = start(database.url);
    await refuseConnections();
    expectRefusal(await get('/v1/me', null), 'authentication_error');
    expectRefusal(await get('/v1/me', `${secret}x`), 'authentication_error');
  });

  it('reports the outage on /readyz, and not on /healthz', async () => {
    const { get } = start(database.url);
    expect((await get('/readyz', null)).statusCode).toBe(200);
    await refuseConnections();
    const response = await get('/readyz', null);
    expect(response.statusCode).toBe(503);
    expect(response.json()).toEqual({
      status: 'unavailable',
      problem: 'Postgres does not respond',
    });
    expect((await get('/healthz', null)).statusCode).toBe(200);
  });

  it('names on /readyz the table that its role cannot read', async () => {
    const role = await createWorkerRole(database);
    try {
      const { get } = start(role.url);
      expect((await get('/readyz', null)).statusCode).toBe(200);
      await database.pool.query(`revoke select on segments from ${role.name}`);
      const response = await get('/readyz', null);
      expect(response.statusCode).toBe(503);
      expect(response.json()).toEqual({
        status: 'unavailable',
        problem: 'The role of DATABASE_URL lacks rights on segments.',
      });
    } finally {
      await role.drop();
    }
  });

  it('reports a missing schema on /readyz', async () => {
    const url = new URL(database.url);
    url.searchParams.set('options', '-c search_path=nowhere');
    const response = await start(url.href).get('/readyz', null);
    expect(response.statusCode).toBe(503);
    expect(response.json().problem).toBe('The table api_keys is not in the search path.');
  });

  it('recovers without a restart when Postgres is back', async () => {
    const { get } = start(database.url);
    expect((await get('/v1/me')).statusCode).toBe(200);
    await refuseConnections();
    expectRefusal(await get('/v1/me'), 'internal_error');
    await allowConnections();
    for (const url of ['/v1/me', '/v1/purchases', '/v1/purchases/stats']) {
      await vi.waitFor(async () => expect((await get(url)).statusCode).toBe(200), 10_000);
    }
  });

  it('survives the loss of idle connections', async () => {
    const { get } = start(database.url);
    await Promise.all(routes.map((url) => get(url)));
    await administer(
      inject('postgresUrl'),
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${name()}'`,
    );
    await vi.waitFor(async () => expect((await get('/v1/purchases')).statusCode).toBe(200), 10_000);
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
