import { statfsSync } from 'node:fs';
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { maxPurchaseLineBytes } from '../../src/domain/purchase.ts';
import { createPool, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { reserveBytes } from '../../src/process/disk-space.ts';
import { decodeRecords } from '../../src/purchase-store/delta/decode-records.ts';
import { createChunkReader, maxChunkBytes } from '../../sync/builds/load/chunk-reader.ts';
import { streamChanges } from '../../sync/capture/changed-purchases.ts';
import type { OrganizationReport } from '../../sync/organization-report.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { addPurchase, addPurchases, type PurchaseValues } from '../support/shop.ts';
import { createTestWorker, type TestWorkerOptions } from '../support/sync.ts';

const it = test
  /** Adds purchases with 65,000 bytes of text each. */
  .extend(
    'addLong',
    ({ database, organizationId, newCustomerId }) =>
      (count: number) =>
        database.pool.query(
          `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, coupons)
           select $1, $2, n, '2026-01-01'::timestamptz + n * interval '1 second',
             jsonb_build_array(jsonb_build_object('code', n || repeat('x', 65000)))
           from generate_series(1, $3::bigint) as n`,
          [organizationId, newCustomerId, count],
        ),
  )
  /** Runs a statement on the purchases of the organization. */
  .extend('change', ({ database, organizationId }) => (statement: string, ...values: unknown[]) => {
    return database.pool.query(`${statement} and organization_id = $1`, [
      organizationId,
      ...values,
    ]);
  })
  /** Publishes the purchases of the organization, by a worker that ends then. */
  .extend('sync', ({ openWorker, organizationId }) => async (options: TestWorkerOptions = {}) => {
    const worker = await openWorker(options);
    await worker.once([organizationId]).finally(() => worker.close());
  });

/** How purchases are copied, and the limit of purchases without a base. */
const steps = [
  ['a load into a log', 5_000],
  ['a load into a base', 0],
  ['a change', 5_000],
] as const;

describe('purchases with long texts', () => {
  // Rows that were written without the constraint can have texts of any length.
  it.beforeAll(async ({ database }) => {
    await database.pool.query('alter table purchases drop constraint texts_at_most_1024_bytes');
  });

  it.for(steps)(
    'are copied by %s up to the limit of text per purchase, and beyond once the text is short',
    { tags: ['slow'] },
    async (
      [step, maxPurchasesWithoutBase],
      { database, organizationId, newCustomerId, change, sync, expectEqual },
    ) => {
      const add = (texts: Partial<PurchaseValues>) =>
        addPurchase(database.pool, organizationId, { customer_id: newCustomerId, ...texts });
      if (step === 'a change') await sync();
      await add({ status: 'x'.repeat(maxPurchaseLineBytes + 1) });
      await expect(sync({ maxPurchasesWithoutBase })).rejects.toThrow(
        'A purchase holds a value that cannot be copied.',
      );
      await change(`update purchases set status = 'short' where true`);
      await add({
        // COPY doubles each backslash.
        status: '\\'.repeat(7 * 2 ** 20 - 5_000),
        utm_source: '\\'.repeat(2 ** 20),
        utm_term: 'é'.repeat(2_500),
      });
      await sync({ maxPurchasesWithoutBase });
      await expectEqual();
    },
  );

  it('are loaded in chunks of at most 96 MiB, or 32 MiB after a longer one, with as many rows as fit', {
    tags: ['slow'],
  }, async ({ database, directory, organizationId, newCustomerId, addLong }) => {
    await addLong(1_600);
    await addPurchases(database.pool, organizationId, newCustomerId, 4_800);
    const reader = createChunkReader({
      database: database.pool,
      organizationId,
      maxRows: 1_600,
      beforeWriting: () => {},
      signal: new AbortController().signal,
    });
    const path = join(directory, 'chunk.tsv');
    const rows: number[] = [];
    let after = null;
    do {
      const chunk = await reader.read(after, path);
      expect((await stat(path)).size).toBe(chunk.bytes);
      expect(chunk.bytes).toBeLessThanOrEqual(maxChunkBytes);
      rows.push(chunk.rows);
      after = chunk.until;
    } while (after !== null);
    expect(rows.slice(0, 4)).toEqual([400, 400, 400, 400]);
    expect(rows.reduce((sum, count) => sum + count, 0)).toBe(6_400);
    expect(Math.max(...rows)).toBe(1_600);
  });

  it('are added by a build if they exceed a tick, and all again after a failure amid them and a restart', {
    tags: ['slow'],
  }, async ({
    database,
    directory,
    organizationId,
    newCustomerId,
    addLong,
    change,
    sync,
    proxy,
    expectEqual,
  }) => {
    const pool = createPool(proxy.url, { max: 4, applicationName: 'test' });
    const reports: OrganizationReport[] = [];
    const firstWorker = await createTestWorker(pool, directory, {
      onReport: (id, report) => id === organizationId && reports.push(report),
    });
    await addPurchases(database.pool, organizationId, newCustomerId, 100);
    await firstWorker.once([organizationId]);
    await addLong(1_500);
    await change('update purchases set utm_source = $2 where id % 2 = 0', 'new');
    await change('delete from purchases where id % 10 = 0');
    // Each row is a message. The tick stops reading after 16 MiB, and the build fails amid the rows.
    proxy.messagesLeft = 1_000;
    await expect(firstWorker.once([organizationId])).rejects.toThrow(/connection/i);
    expect(reports.map(({ state }) => state)).toContain('catching up');
    await firstWorker.close();
    await pool.end();
    await change('update purchases set utm_source = $2 where id % 3 = 0', 'newer');
    await sync();
    await expectEqual();
  });

  it.for([
    ['log', 5_000, 64],
    ['base', 0, 110],
  ] as const)(
    'are not loaded into the reserve of a small disk: into a %s',
    {
      tags: ['slow'],
    },
    async (
      [, maxPurchasesWithoutBase, mebibytes],
      { newDirectory, organizationId, addLong, openWorker, skip },
    ) => {
      const disk = await mountDisk(join(newDirectory, 'disk'), mebibytes);
      if (!disk.canBeFilled) skip();
      await addLong(1_200);
      const dataDirectory = join(disk.path, 'data');
      await mkdir(dataDirectory);
      // All purchases have 75 MB, in chunks of 30 MiB, of which DuckDB may write twice the bytes.
      const worker = await openWorker({
        dataDirectory,
        loadChunkRows: 480,
        maxPurchasesWithoutBase,
      });
      let minFreeBytes = Number.POSITIVE_INFINITY;
      const watch = setInterval(() => {
        const { bavail, bsize } = statfsSync(disk.path);
        minFreeBytes = Math.min(minFreeBytes, bavail * bsize);
      }, 5);
      try {
        await expect(worker.once([organizationId])).rejects.toThrow(
          'The disk that holds DATA_DIR is full.',
        );
        expect(minFreeBytes).toBeGreaterThanOrEqual(reserveBytes(disk.path));
      } finally {
        clearInterval(watch);
        await worker.close();
        await disk.unmount();
      }
    },
  );
});

it('the stream of changes has each purchase once, however often it changed', async ({
  database,
  organizationId,
  newCustomerId,
  change,
}) => {
  const { rows } = await database.pool.query('select pg_current_snapshot()::text as snapshot');
  const since: string = rows[0].snapshot;
  await addPurchases(database.pool, organizationId, newCustomerId, 3_000);
  for (let round = 0; round < 3; round += 1) {
    await change('update purchases set purchase_value_in_cents = $2 where true', round);
  }
  await change('delete from purchases where id % 3 = 0');
  const ids: bigint[] = [];
  await withSnapshot(database.pool, async (connection) => {
    for await (const [of, { lines, records }] of streamChanges(
      connection,
      [organizationId],
      since,
    )) {
      expect(of).toBe(organizationId);
      const decoded = lines.toString().trimEnd().split('\n');
      expect(decoded).toHaveLength(records);
      for (const { id, row } of decodeRecords(lines)) {
        expect(row === null).toBe(id % 3n === 0n);
        ids.push(id);
      }
    }
  });
  expect(ids).toHaveLength(3_000);
  expect(new Set(ids).size).toBe(3_000);
});
