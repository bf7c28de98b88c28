import fc from 'fast-check';
import { pino } from 'pino';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { type Purchase, purchaseColumns, purchaseFromRow } from '../../src/domain/purchase.ts';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import { currentPurchases, readNewest } from '../../sync/clickhouse/generations.ts';
import { createClickHouseStore } from '../../sync/clickhouse/store.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { createWorker, type WorkerOptions } from '../../sync/schedule/worker.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { test } from '../support/fixtures.ts';
import { storedPurchases } from '../support/published.ts';
import { addACent, addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { startClickHouse } from './store.ts';

const it = test
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('clickhouse', { scope: 'file' }, async ({}, { onCleanup }) => {
    const directory = await temporaryDirectory();
    const server = await startClickHouse(directory.path);
    onCleanup(async () => {
      await server.stop();
      await directory.remove();
    });
    return server.clickhouse;
  })
  .extend(
    'sync',
    ({ clickhouse, database, directory, newShop }) =>
      async (options: Partial<WorkerOptions> = {}) => {
        const folder = {
          database: database.pool,
          dataDirectory: directory,
          dataFolderId: await dataFolderId(directory),
        };
        const worker = createWorker({
          ...folder,
          store: createClickHouseStore({ ...folder, clickhouse }),
          concurrency: 2,
          pollIntervalMs: 20,
          log: pino({ level: 'silent' }),
          ...options,
        });
        await worker.once([newShop.organizationId]).finally(() => worker.close());
      },
  )
  .extend('expectEqual', ({ clickhouse, database, newShop: { organizationId } }) => async () => {
    const published = await publishedPurchases(clickhouse, organizationId);
    expect(published).toEqual(await storedPurchases(database.pool, organizationId));
  });

describe('a worker', () => {
  it('publishes awkward purchases, and their changes', async ({
    database: { pool },
    newShop: { organizationId },
    sync,
    expectEqual,
  }) => {
    const customers = [
      await addCustomer(pool, organizationId),
      await addCustomer(pool, organizationId),
    ];
    const [purchases = []] = fc.sample(
      fc.array(awkwardPurchase(customers), { minLength: 150, maxLength: 150 }),
      1,
    );
    for (const purchase of purchases) await addPurchase(pool, organizationId, purchase);
    for (const text of ['\\', '\\N', '\b\f\r\v\n\t', "'\\t'", '\\\\N', '']) {
      const values = { order_number: text, utm_term: text, customer_id: customers[0] as bigint };
      await addPurchase(pool, organizationId, values);
    }
    await sync();
    await expectEqual();
    await pool.query(`${addACent} where organization_id = $1 and id % 3 = 0`, [organizationId]);
    await pool.query('delete from purchases where organization_id = $1 and id % 5 = 0', [
      organizationId,
    ]);
    const other = await addOrganization(pool);
    const customerOfOther = await addCustomer(pool, other);
    const move =
      'update purchases set organization_id = $2, customer_id = $3 where organization_id = $1';
    await pool.query(`${move} and id % 7 = 0`, [organizationId, other, customerOfOther]);
    await sync();
    await expectEqual();
    await pool.query(addACent);
    await pool.query(move, [other, organizationId, customers[1]]);
    await sync();
    await expectEqual();
  });
});

const columns = raw(purchaseColumns.map(({ name }) => name).join(', '));
const isInteger = purchaseColumns.map(({ kind }) => !['text', 'label', 'coupons'].includes(kind));

async function publishedPurchases(
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
