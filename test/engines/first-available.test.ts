import { afterAll, expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { firstAvailable } from '../../src/engines/first-available.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { addCustomer, addPurchases } from '../support/shop.ts';

let engine: PurchaseEngine;

it.beforeAll(async ({ database, directory, shop }) => {
  const customer = await addCustomer(database.pool, shop.organizationId);
  await addPurchases(database.pool, shop.organizationId, customer, 3);
  // This engine reports a generation that it does not have, as if the file was removed meanwhile.
  const withoutFile = {
    ...(await createTestDuckDBEngine(directory)),
    freshness: async () => 1n,
  };
  engine = firstAvailable(withoutFile, createPostgresEngine(database.pool));
});

afterAll(async () => {
  await engine.close();
});

it('a query runs in Postgres if the DuckDB file disappears before it', async ({ shop }) => {
  const { result } = await engine.stats(shop.organizationId, { filters: {}, groupLimit: 1 });
  expect(result.purchaseCount).toBe(3n);
  const page = await engine.list(shop.organizationId, { filters: {}, limit: 2 });
  expect(page.result.purchases).toHaveLength(2);
  const last = page.result.purchases.at(-1)?.id as bigint;
  expect((await engine.get(shop.organizationId, last)).result?.id).toBe(last);
});
