import { copyFileSync, readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { type OrganizationReport, readReport } from '../../sync/status/report.ts';
import { mountDisk } from '../support/disk.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('a worker in trouble', { timeout: 120_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: TestWorker | null;
  let stopping: AbortController;
  let running: Promise<void> | null;
  let organization: bigint;
  let customer: bigint;
  let other: bigint;
  let otherCustomer: bigint;

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    stopping = new AbortController();
    running = null;
    worker = null;
    organization = await addOrganization(database.pool, 'In trouble');
    customer = await addCustomer(database.pool, organization);
    other = await addOrganization(database.pool, 'Other');
    otherCustomer = await addCustomer(database.pool, other);
    await add(organization, { customer_id: customer });
  });
  afterEach(async () => {
    stopping.abort();
    await running;
    await worker?.close();
    await database.drop();
    await directory.remove();
  });

  const add = (to: bigint, values: Parameters<typeof addPurchase>[2]) =>
    addPurchase(database.pool, to, values);
  const start = async (dataDirectory = directory.path) => {
    worker = await createTestWorker(database.pool, dataDirectory);
    running = worker.run(stopping.signal);
  };
  const folder = (id = organization, dataDirectory = directory.path) =>
    organizationDirectory(dataDirectory, id);
  const reported = async (
    matches: (report: OrganizationReport) => boolean,
    directoryOf = folder(),
  ): Promise<OrganizationReport> => {
    for (;;) {
      const report = readReport(directoryOf);
      if (report !== null && matches(report)) return report;
      await sleep(20);
    }
  };
  const hasPublished = async (purchases: number, directoryOf = folder()) => {
    while (readPublished(directoryOf)?.purchases !== purchases) await sleep(20);
  };
  const expectEqual = async (dataDirectory = directory.path) =>
    expect(await publishedPurchases(dataDirectory, organization)).toEqual(
      await storedPurchases(database.pool, organization),
    );

  describe('because of a purchase that cannot be copied', () => {
    beforeEach(async () => {
      await database.pool.query('alter domain instant drop constraint instant_check');
    });
    const poison = () =>
      add(organization, {
        customer_id: customer,
        created_at: 'infinity',
        order_number: 'SECRET-7',
      });

    it.each(['in a load', 'in a change'])(
      'names it without its contents, serves what there is, and lets others go on: %s',
      async (when) => {
        if (when === 'in a change') {
          await start();
          await hasPublished(1);
        }
        await poison();
        if (when === 'in a load') await start();
        const { failure } = await reported((report) => report.failure !== null);
        expect(failure?.message).toMatch(/^Purchase pur_\w+ holds a value that cannot be copied/);
        expect(failure?.advice).toMatch(/Correct the value in Postgres/);
        expect(JSON.stringify(failure)).not.toMatch(/SECRET|infinity/);
        if (when === 'in a change') expect(readPublished(folder())?.purchases).toBe(1);

        await add(other, { customer_id: otherCustomer });
        await hasPublished(1, folder(other));
        expect(readReport(folder(other))?.failure).toBeNull();

        await database.pool.query(
          `update purchases set created_at = now() where created_at = 'infinity'`,
        );
        await reported((report) => report.failure === null);
        await hasPublished(2);
        await expectEqual();
      },
    );

    it('copies amounts of any size, and coupons of any kind', async () => {
      await database.pool.query('alter table purchases drop constraint purchases_coupons_check');
      const most = 2n ** 63n - 1n;
      for (const coupons of ['{"not": "a list"}', '"text"', '[1, null]', 'null']) {
        await add(organization, { customer_id: customer, purchase_value_in_cents: most, coupons });
      }
      await start();
      await hasPublished(5);
      await expectEqual();
      await database.pool.query('update purchases set purchase_value_in_cents = $1', [-most - 1n]);
      await database.pool.query('update purchases set coupons = $1', ['{"still": "none"}']);
      await add(organization, { customer_id: customer });
      await hasPublished(6);
      await expectEqual();
    });
  });

  it.each(['cut off', 'overwritten', 'replaced by an older one'])(
    'publishes anew where the generation was %s while no worker ran',
    async (damage) => {
      await start();
      await hasPublished(1);
      const first = join(folder(), readPublished(folder())?.file ?? '');
      const older = join(folder(), 'older');
      copyFileSync(first, older);
      await add(organization, { customer_id: customer });
      await hasPublished(2);
      stopping.abort();
      await running;
      await worker?.close();
      const file = join(folder(), readPublished(folder())?.file ?? '');
      if (damage === 'cut off') truncateSync(file, 5_000);
      else if (damage === 'overwritten') writeFileSync(file, 'x'.repeat(50_000));
      else copyFileSync(older, file);
      rmSync(older);
      stopping = new AbortController();
      await start();
      while (join(folder(), readPublished(folder())?.file ?? '') === file) await sleep(20);
      await expectEqual();
    },
  );

  it('builds the live file anew where it is damaged, while the generation serves', async () => {
    await start();
    await hasPublished(1);
    stopping.abort();
    await running;
    await worker?.close();
    truncateSync(join(folder(), 'live.duckdb'), 20_000);
    await add(organization, { customer_id: customer });
    stopping = new AbortController();
    await start();
    await hasPublished(2);
    await expectEqual();
  });

  it('waits where the disk is full, and goes on when it is not', async ({ skip }) => {
    const disk = await mountDisk(join(directory.path, 'disk'), 400);
    if (!disk.canBeFilled) skip();
    const diskFolder = folder(organization, disk.path);
    try {
      await start(disk.path);
      await hasPublished(1, diskFolder);
      const before = readPublished(diskFolder);
      await disk.fill(20 * 2 ** 20);
      await add(organization, { customer_id: customer });
      await add(other, { customer_id: otherCustomer });
      const { failure } = await reported((report) => report.failure !== null, diskFolder);
      expect(failure?.message).toBe('The disk that holds DATA_DIR is full.');
      expect(readPublished(diskFolder)).toEqual(before);
      expect(readdirSync(diskFolder)).toContain(before?.file);

      // One that is started meanwhile waits as well.
      stopping.abort();
      await running;
      await worker?.close();
      await disk.fill(0);
      stopping = new AbortController();
      await start(disk.path);

      await disk.free();
      await hasPublished(2, diskFolder);
      await hasPublished(1, folder(other, disk.path));
      await expectEqual(disk.path);
      await reported((report) => report.failure === null, diskFolder);
    } finally {
      stopping.abort();
      await running;
      await worker?.close();
      await disk.unmount();
    }
  });
});
