import sql, { raw } from 'sql-template-tag';
import { expect } from 'vitest';
import { type Purchase, purchaseColumns, purchaseFromRow } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { currentPurchases, readNewest } from '../../sync/clickhouse/generations.ts';
import type { WorkerOptions } from '../../sync/schedule/worker.ts';
import { test } from '../support/fixtures.ts';
import { storedPurchases } from '../support/published.ts';
import { createClickHouseWorker, createTestClickHouse } from './database.ts';

/** Tests with a worker that writes to ClickHouse. */
export const clickHouseTest = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('server', { scope: 'file' }, async ({}, { onCleanup }) => {
    const server = await createTestClickHouse();
    onCleanup(server.drop);
    return server;
  })
  .extend('clickhouse', { scope: 'file' }, ({ server }) => server.clickhouse)
  .extend(
    'sync',
    ({ clickhouse, database, directory, newShop }) =>
      async (options: Partial<WorkerOptions> = {}) => {
        const worker = await createClickHouseWorker(clickhouse, database.pool, directory, options);
        await worker.once([newShop.organizationId]).finally(() => worker.close());
      },
  )
  .extend('expectEqual', ({ clickhouse, database, newShop: { organizationId } }) => async () => {
    const published = await publishedPurchases(clickhouse, organizationId);
    expect(published).toEqual(await storedPurchases(database.pool, organizationId));
  });

const columns = raw(purchaseColumns.map(({ name }) => name).join(', '));
const isInteger = purchaseColumns.map(({ kind }) => !['text', 'label', 'coupons'].includes(kind));

/** All purchases of the newest generation. */
export async function publishedPurchases(
  clickhouse: ClickHouse,
  organizationId: bigint,
): Promise<Purchase[]> {
  const generation = await readNewest(clickhouse, organizationId);
  if (generation === null) throw new Error('nothing is published');
  const rows = await clickhouse.query(sql`
    select * from ${currentPurchases(generation, columns)} order by created_at desc, id desc`);
  return rows.map((row) =>
    purchaseFromRow(
      row.map((value, index) =>
        value !== null && isInteger[index] === true
          ? BigInt(value as string)
          : (value as string | null),
      ),
    ),
  );
}
