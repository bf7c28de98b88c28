import { describe, expect, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import type { TestApi } from '../support/api.ts';
import { test as it, type Shop } from '../support/fixtures.ts';
import { createCheckedApp } from '../support/openapi.ts';
import { startPostgresServer } from '../support/postgres-server.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';

const readiness = async (app: TestApi['app']) => {
  const response = await app.inject({ method: 'GET', url: '/readyz' });
  return [response.statusCode, response.json().problem];
};
const ready = [200, undefined];
const old = [
  503,
  expect.stringMatching(
    /^The sync worker has published nothing for \d+ s\. READY_MAX_LAG_SECONDS allows 1 s$/,
  ),
];

describe('/readyz', () => {
  it('occupies one connection, however many call it', async ({ database, onTestFinished }) => {
    const pool = createPool(database.url, { max: 5, applicationName: 'test' });
    const app = createCheckedApp({ services: testServices(pool, createPostgresEngine(pool)) });
    onTestFinished(async () => {
      await app.close();
      await pool.end();
    });
    for (const found of await Promise.all(Array.from({ length: 20 }, () => readiness(app)))) {
      expect(found).toEqual(ready);
    }
    expect(pool.totalCount).toBe(1);
  });

  it('is 503 while Postgres is frozen, and 200 again afterwards', { tags: ['slow'] }, async ({
    newDirectory,
  }) => {
    const server = await startPostgresServer(newDirectory);
    const pool = createPool(server.url, { max: 3, applicationName: 'test' });
    const services = testServices(pool, createPostgresEngine(pool));
    const app = createCheckedApp({ services, databaseSilenceMs: 500 });
    try {
      await expect.poll(() => readiness(app)).toEqual(ready);
      const resume = server.freeze();
      try {
        const problem = 'Postgres does not respond';
        // More than the pool has connections.
        for (const found of await Promise.all(Array.from({ length: 5 }, () => readiness(app)))) {
          expect(found).toEqual([503, problem]);
        }
        expect(await readiness(app)).toEqual([503, problem]);
        expect((await app.inject({ method: 'GET', url: '/healthz' })).statusCode).toBe(200);
      } finally {
        resume();
      }
      await expect.poll(() => readiness(app)).toEqual(ready);
    } finally {
      await app.close();
      await pool.end();
      await server.remove();
    }
  });

  it('is 503 while the worker publishes nothing, and 200 if a poll finds no changes', {
    tags: ['slow'],
  }, async ({ shop, worker, startApi, followChanges }) => {
    await worker.syncAll();
    const { app, get } = await startApi({ readyMaxLagMs: 1_000 });
    const unlimited = await startApi();
    // No files are open yet.
    expect(await readiness(app)).toEqual(ready);
    for (const api of [{ get }, unlimited]) {
      expect((await api.get('/v1/purchases', shop.secret)).statusCode).toBe(200);
    }
    await vi.waitFor(async () => expect(await readiness(app)).toEqual(old), 120_000);
    expect(await readiness(unlimited.app)).toEqual(ready);
    followChanges();
    await vi.waitFor(async () => expect(await readiness(app)).toEqual(ready), 120_000);
  });

  it('is 200 while one organization fails and the others follow', { tags: ['slow'] }, async ({
    database,
    shop,
    otherShop,
    worker,
    startApi,
    followChanges,
  }) => {
    await worker.syncAll();
    const { app, get } = await startApi({ readyMaxLagMs: 1_000 });
    const instantOf = async ({ secret }: Shop) =>
      Date.parse(String((await get('/v1/purchases', secret)).headers['x-data-as-of']));
    followChanges();
    await database.pool.query('alter domain instant drop constraint instant_check');
    await addPurchase(database.pool, shop.organizationId, {
      customer_id: await addCustomer(database.pool, shop.organizationId),
      created_at: 'infinity',
    });
    const isBehind = async () => (await instantOf(otherShop)) - (await instantOf(shop)) > 2_000;
    await vi.waitUntil(isBehind, 30_000);
    expect(await readiness(app)).toEqual(ready);
    await database.pool.query('delete from purchases');
  });

  it('does not count purchases that Postgres serves', { tags: ['slow'] }, async ({
    database,
    startApi,
    shop,
  }) => {
    const { app, get } = await startApi({ readyMaxLagMs: 1_000 });
    const organizationId = await addOrganization(database.pool);
    const { secret } = await addKey(database.pool, organizationId);
    expect((await get('/v1/purchases', secret)).statusCode).toBe(200);
    expect(await readiness(app)).toEqual(ready);
    // The files of a database that was restored are served no more.
    expect((await get('/v1/purchases', shop.secret)).statusCode).toBe(200);
    await vi.waitFor(async () => expect(await readiness(app)).toEqual(old), 120_000);
    await database.pool.query('update organizations set identity = gen_random_uuid()');
    expect((await get('/v1/purchases', shop.secret)).statusCode).toBe(200);
    expect(await readiness(app)).toEqual(ready);
  });
});
