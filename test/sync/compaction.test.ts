import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { UnknownCursorError } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { runProgram } from '../support/program.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const purchases = 60;

const it = test
  .extend('folder', ({ directory, shop }) => organizationDirectory(directory, shop.organizationId))
  /** Publishes what Postgres holds, and compacts the delta if it has more rows than `maxDeltaRows`. */
  .extend('sync', ({ database, directory }) => async (maxDeltaRows = 20_000) => {
    const options = { maxDeltaRows, loadChunkRows: 20 };
    const worker = await createTestWorker(database.pool, directory, options);
    await worker.syncAll().finally(() => worker.close());
  })
  .extend('ids', async ({ database, shop, sync }) => {
    const customer = await addCustomer(database.pool, shop.organizationId);
    const ids: bigint[] = [];
    for (let index = 0; index < purchases; index += 1) {
      const created = new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString();
      const values = { customer_id: customer, created_at: created };
      ids.push(await addPurchase(database.pool, shop.organizationId, values));
    }
    await sync();
    return ids;
  });

describe('a compaction', () => {
  it('does not disturb a walk through pages', async ({
    database,
    shop,
    folder,
    ids,
    sync,
    engine,
  }) => {
    await database.pool.query(`update purchases set order_number = 'x' where id % 3 = 0`);
    await sync();
    const base = readPublished(folder)?.base;
    const walked: bigint[] = [];
    for (let hasMore = true; hasMore; ) {
      const startingAfter = walked.at(-1);
      const query = { filters: {}, limit: 7, ...(startingAfter ? { startingAfter } : {}) };
      const { result } = await engine.list(shop.organizationId, query);
      walked.push(...result.purchases.map(({ id }) => id));
      hasMore = result.hasMore;
      if (walked.length !== 21) continue;
      await sync(0);
      const file = readPublished(folder)?.file;
      while ((await engine.version(shop.organizationId))?.name !== file) await sleep(10);
    }
    expect(readPublished(folder)?.base).not.toBe(base);
    expect(walked).toEqual(ids.toReversed());
  });

  it('ends the use of a deleted purchase as a cursor', async ({
    database,
    directory,
    shop,
    ids,
    sync,
    engine,
  }) => {
    await database.pool.query('delete from purchases where id = $1', [ids[30]]);
    await sync();
    const query = { filters: {}, limit: 3, startingAfter: ids[30] as bigint };
    const { result } = await engine.list(shop.organizationId, query);
    expect(result.purchases.map(({ id }) => id)).toEqual([ids[29], ids[28], ids[27]]);
    await sync(0);
    const postgres = createPostgresEngine(database.pool);
    await expect(postgres.list(shop.organizationId, query)).rejects.toThrow(UnknownCursorError);
    while (
      await engine.list(shop.organizationId, query).then(
        () => true,
        (error) => !(error instanceof UnknownCursorError),
      )
    ) {
      await sleep(10);
    }
    expect(await publishedPurchases(directory, shop.organizationId)).toHaveLength(purchases - 1);
  });

  const steps = [
    [
      'the new base is written',
      (names: readonly string[]) => names.includes('base.unfinished.duckdb'),
    ],
    [
      'the new base has its first delta',
      (names: readonly string[]) => names.includes('next.duckdb'),
    ],
    ['both bases are there', (names: readonly string[]) => basesIn(names).length === 2],
  ] as const;
  it.for(steps)(
    'loses nothing if the worker is killed when %s',
    { timeout: 120_000 },
    async ([_, isReached], { database, directory, shop, folder }) => {
      const customer = await addCustomer(database.pool, shop.organizationId);
      await database.pool.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select $1, $2, n from generate_series(1, 3000) as n`,
        [shop.organizationId, customer],
      );
      const startWorker = () =>
        runProgram('test/support/chaos/small-chunks.ts', [], {
          DATABASE_URL: database.url,
          DATA_DIR: directory,
          SYNC_POLL_INTERVAL_MS: '10',
        });
      const changeSome = () =>
        database.pool.query(
          `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1 where id % 7 = 0`,
        );
      const worker = startWorker();
      while (readPublished(folder) === null) await sleep(5);
      await changeSome();
      while (!isReached(readdirSync(folder))) await sleep(1);
      await worker.end('SIGKILL');
      await changeSome();
      const next = startWorker();
      const stored = await storedPurchases(database.pool, shop.organizationId);
      const isSettled = async () =>
        !existsSync(join(folder, 'next.duckdb')) &&
        JSON.stringify(await publishedPurchases(directory, shop.organizationId), digits) ===
          JSON.stringify(stored, digits);
      while (!(await isSettled())) await sleep(200);
      await next.end('SIGTERM');
      expect(await publishedPurchases(directory, shop.organizationId)).toEqual(stored);
    },
  );
});

const basesIn = (names: readonly string[]) =>
  names.filter((name) => /^base-[0-9a-f]+\.duckdb$/.test(name));

const digits = (_name: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value);
