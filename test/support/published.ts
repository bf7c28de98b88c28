import { expect } from 'vitest';
import type { Purchase } from '../../src/domain/purchase.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { createTestDuckDBEngine } from './engines.ts';

/** All purchases of the published generation, read with a new engine. */
export async function publishedPurchases(
  dataDirectory: string,
  organizationId: bigint,
): Promise<Purchase[]> {
  const engine = await createTestDuckDBEngine(dataDirectory);
  try {
    return await listAll(engine, organizationId);
  } finally {
    await engine.close();
  }
}

/** All purchases in Postgres. */
export const storedPurchases = (database: Database, organizationId: bigint): Promise<Purchase[]> =>
  listAll(createPostgresEngine(database), organizationId);

/**
 * One page, longer than a client may request: its purchases are those of one snapshot, also while a
 * worker publishes.
 */
async function listAll(engine: PurchaseEngine, organizationId: bigint): Promise<Purchase[]> {
  const { result } = await engine.list(organizationId, { filters: {}, limit: 1_000_000 });
  expect(result.hasMore).toBe(false);
  return [...result.purchases];
}

export const areEqual = (some: readonly Purchase[], others: readonly Purchase[]): boolean =>
  `${some.map(Object.values)}` === `${others.map(Object.values)}`;

/** Compares the published purchases with those of Postgres. */
export const expectEqual = async (
  database: Database,
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> =>
  expect(await publishedPurchases(dataDirectory, organizationId)).toEqual(
    await storedPurchases(database, organizationId),
  );
