import sql from 'sql-template-tag';
import { expect } from 'vitest';
import type { Purchase } from '../../src/domain/purchase.ts';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { type Generation, newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import { readPurchase } from '../../src/engines/clickhouse/list.ts';
import { purchaseNames } from '../../src/engines/clickhouse/schema.ts';
import { openPublishedContents } from '../../sync/clickhouse/content.ts';
import { currentPurchases } from '../../sync/clickhouse/current-purchases.ts';
import { type VerifyOptions, verifyOrganization } from '../../sync/verification/verify.ts';
import type { Worker } from '../../sync/worker/worker.ts';
import { createTestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { createFollower } from '../support/follower.ts';
import { storedPurchases } from '../support/published.ts';
import { testServices } from '../support/services.ts';

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
  /** Brings `newShop` up to date with a temporary worker. */
  .extend(
    'sync',
    ({ openClickHouseWorker, newShop }) =>
      async (options: ClickHouseWorkerOptions = {}) => {
        const worker = await openClickHouseWorker(options);
        await worker.once([newShop.organizationId]).finally(() => worker.close());
      },
  )
  .extend(
    'generation',
    ({ clickhouse, newShop }) =>
      async () =>
        (await newestGeneration(clickhouse, newShop.organizationId, undefined)) as Generation,
  )
  .extend(
    'published',
    ({ clickhouse, newShop }) =>
      () =>
        publishedPurchases(clickhouse, newShop.organizationId),
  )
  .extend(
    'stored',
    ({ database, newShop }) =>
      () =>
        storedPurchases(database.pool, newShop.organizationId),
  )
  .extend(
    'verify',
    ({ clickhouse, database, newShop: { organizationId } }) =>
      (options: Partial<VerifyOptions> = {}) =>
        verifyOrganization({
          organizationId,
          database: database.pool,
          open: async (id) => openPublishedContents(clickhouse, id),
          signal,
          maxWaitMs: 0,
          partRows: 100,
          ...options,
        }),
  )
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
  .extend('follower', ({ request }) => createFollower(request))
  .extend('expectEqual', ({ published, stored, verify }) => async () => {
    expect(await published()).toEqual(await stored());
    expect(await verify()).toMatchObject({ state: 'equal', reason: null });
  });

/** All purchases that are shown. */
export async function publishedPurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
): Promise<Purchase[]> {
  const generation = await newestGeneration(clickhouse, organizationId, undefined);
  if (generation === null) throw new Error('nothing is published');
  const rows = await clickhouse.query(sql`
    select * from ${currentPurchases(generation, purchaseNames)} order by created_at desc, id desc`);
  return rows.map(readPurchase);
}
