import { afterAll, beforeAll, expect, it } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { firstAvailable } from '../../src/engines/first-available.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

let database: TestDatabase;
let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let engine: PurchaseEngine;
let organization: bigint;

beforeAll(async () => {
  database = await createTestDatabase();
  directory = await temporaryDirectory();
  organization = await addOrganization(database.pool);
  const customer = await addCustomer(database.pool, organization);
  await addPurchases(database.pool, organization, customer, 3);
  // It says that it has what it has not: as if it had let go of that in between.
  const forgetful = {
    ...(await createTestDuckDBEngine(directory.path)),
    freshness: async () => 1n,
  };
  engine = firstAvailable(forgetful, createPostgresEngine(database.pool));
});

afterAll(async () => {
  await engine.close();
  await database.drop();
  await directory.remove();
});

it('answers from Postgres what DuckDB had a moment ago and has not when it is asked', async () => {
  const { answer } = await engine.stats(organization, { filters: {}, groupLimit: 1 });
  expect(answer.purchaseCount).toBe(3n);
  const page = await engine.list(organization, { filters: {}, limit: 2 });
  expect(page.answer.purchases).toHaveLength(2);
  const last = page.answer.purchases.at(-1)?.id as bigint;
  expect((await engine.get(organization, last)).answer?.id).toBe(last);
});
