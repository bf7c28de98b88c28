import { statfsSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { maxPurchaseTextBytes } from '../../src/domain/purchase.ts';
import { withSnapshot } from '../../src/postgres/pool.ts';
import { streamChanges } from '../../sync/capture/changes.ts';
import { reserveBytes } from '../../sync/files/disk-space.ts';
import { createChunkReader, maxChunkBytes } from '../../sync/load/chunk-reader.ts';
import { mountDisk } from '../support/disk.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchase, addPurchases } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('long texts of purchases', { timeout: 120_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: TestWorker;
  let organization: bigint;
  let customer: bigint;

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    worker = await createTestWorker(database.pool, directory.path, { loadChunkRows: 1_400 });
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
  });
  afterEach(async () => {
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  /** As rows from before migration 007. */
  const allowAnyLength = () =>
    database.pool.query('alter table purchases drop constraint texts_at_most_1024_bytes');
  const addLong = (count: number) =>
    database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, coupons)
       select $1, $2, n, '2026-01-01'::timestamptz + n * interval '1 second',
         jsonb_build_array(jsonb_build_object('code', n || repeat('x', 65000)))
       from generate_series(1, $3::bigint) as n`,
      [organization, customer, count],
    );
  const expectEqual = async () =>
    expect(await publishedPurchases(directory.path, organization)).toEqual(
      await storedPurchases(database.pool, organization),
    );

  it.each(['a load', 'a change'])(
    'are copied up to the limit of a purchase, in %s',
    async (in_) => {
      await allowAnyLength();
      if (in_ === 'a change') await worker.syncAll();
      // In CSV twice as long.
      const order_number = '"'.repeat(maxPurchaseTextBytes - 5_000);
      const utm_term = 'é'.repeat(2_500);
      await addPurchase(database.pool, organization, {
        customer_id: customer,
        order_number,
        utm_term,
      });
      await worker.syncAll();
      await expectEqual();
    },
  );

  it.each(['a load', 'a change'])('beyond it name the purchase, in %s', async (in_) => {
    await allowAnyLength();
    if (in_ === 'a change') await worker.syncAll();
    for (const length of [maxPurchaseTextBytes + 1, 18 * 2 ** 20]) {
      await addPurchase(database.pool, organization, {
        customer_id: customer,
        order_number: 'x'.repeat(length),
      });
      await expect(worker.syncAll()).rejects.toThrow(
        /Purchase pur_\w+ holds a value that cannot be copied: texts of more than 8 MiB together/,
      );
      await database.pool.query(`update purchases set order_number = 'short'`);
      await worker.syncAll();
      await expectEqual();
      if (in_ === 'a load') await database.pool.query('truncate purchases');
    }
  });

  it('make the chunks of a load shorter, until they are short again', async () => {
    await addLong(2_000);
    await addPurchases(database.pool, organization, customer, 6_000);
    const reader = createChunkReader({
      database: database.pool,
      organizationId: organization,
      directory: directory.path,
      maxRows: 2_000,
      signal: new AbortController().signal,
    });
    const path = join(directory.path, 'chunk.csv');
    const rows: number[] = [];
    let after = null;
    do {
      const chunk = await reader.read(after, path);
      expect((await stat(path)).size).toBe(chunk.bytes);
      expect(chunk.bytes).toBeLessThanOrEqual(maxChunkBytes);
      rows.push(chunk.rows);
      after = chunk.until;
    } while (after !== null);
    expect(rows.slice(0, 2)).toEqual([1_000, 1_000]);
    expect(rows.reduce((sum, count) => sum + count, 0)).toBe(8_000);
    expect(Math.max(...rows)).toBe(2_000);
  });

  it('are applied in parts, also after a failure in one of them', async () => {
    await database.pool.query('alter domain instant drop constraint instant_check');
    await addPurchases(database.pool, organization, customer, 100);
    await worker.syncAll();
    await addLong(1_500);
    await database.pool.query('update purchases set utm_source = $1 where id % 2 = 0', ['new']);
    await database.pool.query('delete from purchases where id % 10 = 0');
    const poisoned = await addPurchase(database.pool, organization, {
      customer_id: customer,
      created_at: 'infinity',
    });
    await expect(worker.syncAll()).rejects.toThrow(/Purchase pur_/);
    await database.pool.query('update purchases set created_at = now() where id = $1', [poisoned]);
    await database.pool.query('update purchases set utm_source = $1 where id % 3 = 0', ['newer']);
    await worker.syncAll();
    await expectEqual();
  });

  it('leave the reserve of a small disk free', async ({ skip }) => {
    const disk = await mountDisk(join(directory.path, 'disk'), 256);
    if (!disk.canBeFilled) skip();
    await addLong(3_500);
    const data = join(disk.path, 'data');
    await mkdir(data);
    const small = await createTestWorker(database.pool, data, { loadChunkRows: 1_400 });
    let least = Number.POSITIVE_INFINITY;
    const watch = setInterval(() => {
      const { bavail, bsize } = statfsSync(disk.path);
      least = Math.min(least, bavail * bsize);
    }, 5);
    try {
      await expect(small.syncAll()).rejects.toThrow('The disk that holds DATA_DIR is full.');
      expect(least).toBeGreaterThanOrEqual(reserveBytes);
    } finally {
      clearInterval(watch);
      await small.close();
      await disk.unmount();
    }
  });
});

it('delivers each purchase once, however often it changed', async () => {
  const database = await createTestDatabase();
  const organization = await addOrganization(database.pool);
  const customer = await addCustomer(database.pool, organization);
  const { rows } = await database.pool.query('select pg_current_snapshot()::text as snapshot');
  await addPurchases(database.pool, organization, customer, 3_000);
  for (let round = 0; round < 10; round += 1) {
    await database.pool.query('update purchases set purchase_value_in_cents = $1', [round]);
  }
  await database.pool.query('delete from purchases where id % 3 = 0');
  const seen: bigint[] = [];
  await withSnapshot(database.pool, async (source) => {
    for await (const { id, row } of streamChanges(source, organization, rows[0].snapshot)) {
      expect(row === null).toBe(id % 3n === 0n);
      seen.push(id);
    }
  });
  expect(seen).toHaveLength(3_000);
  expect(new Set(seen).size).toBe(3_000);
  await database.drop();
});
