import sql from 'sql-template-tag';
import { expect } from 'vitest';
import type { Purchase } from '../../src/domain/purchase.ts';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { type LoadGeneration, newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import { readPurchase } from '../../src/engines/clickhouse/list.ts';
import { purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { createClickHouseBuilder } from '../../sync/clickhouse/clickhouse-builder.ts';
import { createClickHouseStore } from '../../sync/clickhouse/clickhouse-store.ts';
import { openPublishedContents } from '../../sync/clickhouse/content.ts';
import { newestPurchases } from '../../sync/clickhouse/newest-purchases.ts';
import type { Organizations } from '../../sync/organization.ts';
import { startPublication } from '../../sync/tick/start-publication.ts';
import { runTick } from '../../sync/tick/tick.ts';
import { type VerifyOptions, verifyOrganization } from '../../sync/verification/verify.ts';
import type { Worker } from '../../sync/worker/worker.ts';
import { createTestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { createFollower } from '../support/follower.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { storedPurchases } from '../support/published.ts';
import { testServices } from '../support/services.ts';
import { addACent, addPurchases } from '../support/shop.ts';
import { createClickHouseProxy } from './broken-connections.ts';
import {
  type ClickHouseWorkerOptions,
  createClickHouseWorker,
  createTestClickHouse,
  createTestClickHouseEngine,
} from './database.ts';

const { signal } = new AbortController();

/** Tests with a worker that writes to ClickHouse, through a proxy. */
export const clickHouseTest = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('server', { scope: 'file' }, async ({}, { onCleanup }) => {
    const server = await createTestClickHouse();
    onCleanup(server.drop);
    return server;
  })
  .extend('clickhouse', { scope: 'file' }, ({ server }) => server.clickhouse)
  .extend('clickHouseProxy', async ({ server }, { onCleanup }) => {
    const proxy = await createClickHouseProxy(server.options.url);
    onCleanup(proxy.close);
    return proxy;
  })
  .extend(
    'openClickHouseWorker',
    ({ server, clickHouseProxy: proxy, database, directory }, { onCleanup }) => {
      const ends: (() => Promise<void>)[] = [];
      onCleanup(async () => {
        for (const end of ends) await end();
      });
      return async (options: ClickHouseWorkerOptions = {}): Promise<Worker> => {
        const clickhouse = openClickHouse({ ...server.options, url: proxy.url });
        const worker = await createClickHouseWorker(clickhouse, database.pool, directory, {
          graceMs: 0,
          ...options,
        });
        ends.push(async () => {
          await worker.close();
          await clickhouse.close();
        });
        return worker;
      };
    },
  )
  /** The purchases of `newShop` in Postgres, and what ClickHouse shows of them. */
  .extend('replica', ({ clickhouse, database, newShop, newCustomerId, openClickHouseWorker }) => {
    const { pool } = database;
    const { organizationId: id } = newShop;
    const published = () => publishedPurchases(clickhouse, id);
    const stored = () => storedPurchases(pool, id);
    const openSynced = async (options: ClickHouseWorkerOptions = {}) => {
      const worker = await openClickHouseWorker(options);
      await worker.once([id]);
      return worker;
    };
    const verify = (options: Partial<VerifyOptions> = {}) =>
      verifyOrganization({
        organizationId: id,
        database: pool,
        open: async (of) => openPublishedContents(clickhouse, of),
        signal,
        maxWaitMs: 0,
        rangeRows: 100,
        ...options,
      });
    return {
      /** The id of the organization. */
      id,
      pool,
      openWorker: openClickHouseWorker,
      add: (count: number) => addPurchases(pool, id, newCustomerId, count),
      /** Adds a cent to the purchases that match. */
      change: (condition = 'true') =>
        pool.query(`${addACent} where organization_id = $1 and ${condition}`, [id]),
      delete: (condition: string) =>
        pool.query(`delete from purchases where organization_id = $1 and ${condition}`, [id]),
      /** Opens a worker that has published the changes. */
      openSynced,
      /** Publishes the changes with a temporary worker. */
      sync: async () => (await openSynced()).close(),
      generation: async () => (await newestGeneration(clickhouse, id, undefined)) as LoadGeneration,
      published,
      stored,
      verify,
      async expectEqual() {
        expect(await published()).toEqual(await stored());
        expect(await verify()).toMatchObject({ state: 'equal', reason: null });
      },
    };
  })
  /** Publishes ticks without a worker, in a store whose methods a test may replace. */
  .extend('openTicks', ({ database: { pool }, directory }) => async (clickhouse: ClickHouse) => {
    const shard = everyOrganization;
    const folder = { database: pool, clickhouse, dataDirectory: directory };
    const retention = { changesRetentionMs: 30 * 86_400_000 };
    const store = createClickHouseStore({
      ...folder,
      ...retention,
      shard,
      log: createRecordedLog(),
    });
    const builder = createClickHouseBuilder(store, folder);
    const organizations: Organizations = new Map();
    const source = { database: pool, store, shard };
    const publication = await startPublication(source, organizations, () => {});
    const tick = () =>
      runTick({
        ...{ database: pool, store, organizations, publication, maxTickChanges: 1_000 },
        onFailure() {},
      });
    return { store, builder, organizations, publication, tick };
  })
  /** Opens an API over ClickHouse. */
  .extend('openApi', ({ database, directory, server }, { onCleanup }) => {
    const ends: (() => Promise<void>)[] = [];
    onCleanup(async () => {
      for (const end of ends) await end();
    });
    return async () => {
      const engine = createTestClickHouseEngine(server.options);
      const services = testServices(database.pool, engine, engine.changes);
      const api = await createTestApi(database.pool, directory, { services });
      ends.push(api.close, engine.close);
      return { ...api, changes: engine.changes };
    };
  })
  /** Sends requests of `newShop`. */
  .extend('request', async ({ openApi, newShop }) => {
    const api = await openApi();
    return (path: string, headers?: Record<string, string>) =>
      api.get(path, newShop.secret, headers);
  })
  .extend('follower', ({ request }) => createFollower(request));

/** All purchases that are shown. */
async function publishedPurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
): Promise<Purchase[]> {
  const generation = await newestGeneration(clickhouse, organizationId, undefined);
  if (generation === null) throw new Error('nothing is published');
  const rows = await clickhouse.query(sql`
    select * from ${newestPurchases(generation, purchaseNames)} order by created_at desc, id desc`);
  return rows.map(readPurchase);
}
