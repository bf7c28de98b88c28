import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect } from 'vitest';
import { type Purchase, paymentStatuses } from '../../src/domain/purchase.ts';
import type { PurchaseEngine, PurchaseReader } from '../../src/domain/purchase-engine.ts';
import { quotePath } from '../../src/duckdb/connection.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { readPublished } from '../../src/purchase-store/ticks/published.ts';
import { newestTick, readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { createTestDuckDBEngine } from './engines.ts';

/** The instant that the published files show. */
export function publishedInstant(dataDirectory: string, organizationId: bigint): bigint {
  const published = readPublished(
    organizationId,
    () => newestTick(readTicks(dataDirectory), organizationId),
    () => readCurrent(organizationDirectory(dataDirectory, organizationId), layoutVersion),
  );
  if (published === null) throw new Error('nothing is published');
  return published.instant;
}

/** Waits until an open engine shows what is published. It reads the published tick every 50 ms. */
export const untilShown = (
  engine: PurchaseReader,
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> =>
  engine.waitUntilFresh(
    organizationId,
    publishedInstant(dataDirectory, organizationId),
    AbortSignal.timeout(120_000),
  );

/** All published purchases, read with a new engine. */
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
export async function expectEqual(
  database: Database,
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  expect(await publishedPurchases(dataDirectory, organizationId)).toEqual(
    await storedPurchases(database, organizationId),
  );
  await expectPreviousPurchases(dataDirectory, organizationId);
}

/** Compares the previous purchases that a base has, if there is one, with those of its customers. */
async function expectPreviousPurchases(
  dataDirectory: string,
  organizationId: bigint,
): Promise<void> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  const readBase = () => readCurrent(directory, layoutVersion)?.base ?? null;
  const base = readBase();
  if (base === null) return;
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  try {
    await connection.run(`attach ${quotePath(join(directory, base))} as base (read_only)`);
    const previous = (customer: string) => `coalesce(
      lag(created_quarter_hour) over (partition by ${customer} order by created_at, id),
      (select min(created_quarter_hour) - 1 from base.purchase))`;
    const statuses = paymentStatuses.map((status) => `'${status}'`);
    const differing = await connection.runAndReadAll(`
      with statuses as (
        select key, value as status from base.label_payment_status where value in (${statuses})
      )
      from (
        select id, previous_quarter_hour, ${previous('customer_key')} as previous,
          previous_of_status_quarter_hour,
          ${previous('customer_key, status')} as previous_of_status
        from base.purchase left join statuses on statuses.key = payment_status_key
      ) where (previous_quarter_hour, previous_of_status_quarter_hour) <> (previous, previous_of_status)`);
    expect(differing.getRows()).toEqual([]);
  } catch (error) {
    // A compaction has removed it meanwhile.
    if (readBase() === base) throw error;
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}
