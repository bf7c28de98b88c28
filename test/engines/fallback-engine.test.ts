import { describe, expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createFallbackEngine } from '../../src/engines/fallback-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { addPurchases } from '../support/shop.ts';

const it = test
  .extend('add', ({ database, shop, customerId }) => (count = 1) => {
    return addPurchases(database.pool, shop.organizationId, customerId, count);
  })
  /** Whether the engine over files has what is published. */
  .extend('files', () => ({ areAvailable: true }))
  /** By how much Postgres's clock is ahead, in microseconds. */
  .extend('clock', () => ({ ahead: 0n }))
  .extend('purchases', async ({ database, directory, files, clock }, { onCleanup }) => {
    const duckdb = await createTestDuckDBEngine(directory);
    const engine: PurchaseEngine = {
      ...duckdb,
      version: async (id) => (files.areAvailable ? duckdb.version(id) : null),
    };
    const postgres = createPostgresEngine(database.pool);
    const ahead: PurchaseEngine = {
      ...postgres,
      report: async (...query) => {
        const { asOf, ...shown } = await postgres.report(...query);
        return { ...shown, asOf: asOf + clock.ahead };
      },
    };
    const purchases = createFallbackEngine(engine, ahead);
    onCleanup(() => purchases.close());
    return purchases;
  })
  .extend('stats', ({ purchases, shop }) => async () => {
    const query = { filters: {}, groupLimit: 1 };
    const { result, asOf } = await readPurchaseStats(purchases, shop.organizationId, query);
    return { count: result.purchaseCount, asOf };
  })
  /** Statistics from Postgres, which show a purchase more than the files. The files are available again. */
  .extend('fromPostgres', async ({ add, files, stats, worker }) => {
    await add(3);
    await worker.syncAll();
    files.areAvailable = false;
    await add(1);
    const shown = await stats();
    files.areAvailable = true;
    return shown;
  });

describe('an organization that Postgres has served', () => {
  it('is served from files once these show all that Postgres has shown', async ({
    fromPostgres,
    stats,
    worker,
  }) => {
    expect(fromPostgres.count).toBe(4n);
    const next = stats();
    await worker.syncAll();
    const { count, asOf } = await next;
    expect(count).toBe(4n);
    expect(asOf).toBeGreaterThanOrEqual(fromPostgres.asOf);
  });

  it('is served by Postgres while the worker publishes nothing', { tags: ['slow'] }, async ({
    fromPostgres,
    add,
    stats,
  }) => {
    expect(fromPostgres.count).toBe(4n);
    expect((await stats()).count).toBe(4n);
    await add(1);
    expect((await stats()).count).toBe(5n);
  });

  it('is served from files again after the clock of Postgres went back', {
    tags: ['slow'],
  }, async ({ add, clock, files, stats, worker }) => {
    await add(3);
    await worker.syncAll();
    files.areAvailable = false;
    clock.ahead = 3_600_000_000n;
    const { asOf } = await stats();
    files.areAvailable = true;
    clock.ahead = 0n;
    expect((await stats()).asOf).toBeLessThan(asOf);
    await worker.syncAll();
    await add(1);
    expect((await stats()).count).toBe(3n);
  });
});

it('a query runs in Postgres if the DuckDB file disappears before it', async ({
  database,
  directory,
  shop,
  add,
  onTestFinished,
}) => {
  await add(3);
  // This engine reports a version that it does not have, as if the file was removed meanwhile.
  const withoutFile = {
    ...(await createTestDuckDBEngine(directory)),
    version: async () => ({ name: 'removed', asOf: 1n }),
  };
  const engine = createFallbackEngine(withoutFile, createPostgresEngine(database.pool));
  onTestFinished(() => engine.close());
  const { result } = await readPurchaseStats(engine, shop.organizationId, {
    filters: {},
    groupLimit: 1,
  });
  expect(result.purchaseCount).toBe(3n);
  const page = await engine.list(shop.organizationId, { filters: {}, limit: 2 });
  expect(page.result.purchases).toHaveLength(2);
  const last = page.result.purchases.at(-1)?.id as bigint;
  expect((await engine.get(shop.organizationId, last)).result?.id).toBe(last);
});
