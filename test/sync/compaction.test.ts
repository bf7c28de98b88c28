import { randomUUID } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { UnknownCursorError } from '../../src/domain/purchase-engine.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { createIdleFiles } from '../../sync/files/idle-files.ts';
import { createReplicator } from '../../sync/files/replicator.ts';
import { noObserver } from '../../sync/metrics/observer.ts';
import { mountDisk } from '../support/disk.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

// Another process fills the disk after the worker has looked: DuckDB's writes then fail.
vi.mock('../../sync/files/disk-space.ts', async (original) => ({
  ...(await original<typeof import('../../sync/files/disk-space.ts')>()),
  requireSpace: async () => {},
}));

const purchases = 60;

const it = test
  /** Publishes what Postgres holds, and compacts the delta if it has more rows than `maxDeltaRows`. */
  .extend('sync', ({ database, directory }) => async (maxDeltaRows = 20_000) => {
    const options = { maxDeltaRows, loadChunkRows: 20 };
    const worker = await createTestWorker(database.pool, directory, options);
    await worker.syncAll().finally(() => worker.close());
  })
  /** Waits until the engine serves what is published. */
  .extend('untilServed', ({ engine, folder, shop }) => async () => {
    const file = readPublished(folder)?.file;
    while ((await engine.version(shop.organizationId))?.name !== file) await sleep(10);
  })
  .extend('ids', async ({ database, shop, sync }) => {
    const customer = await addCustomer(database.pool, shop.organizationId);
    const ids: bigint[] = [];
    for (let index = 0; index < purchases; index += 1) {
      const created = new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString();
      const values = { customer_id: customer, created_at: created };
      ids.push(await addPurchase(database.pool, shop.organizationId, values));
    }
    await sync();
    return ids;
  })
  .extend('disk', async ({ directory }, { onCleanup }) => {
    const disk = await mountDisk(join(directory, 'disk'), 400);
    onCleanup(disk.unmount);
    return disk;
  })
  /** Of `shop`, with its files on `disk`. */
  .extend('replicator', async ({ database, directory, disk, shop }, { onCleanup }) => {
    const spillDirectory = join(directory, 'spill');
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    const replicator = createReplicator({
      organizationId: shop.organizationId,
      database: database.pool,
      instance,
      dataDirectory: disk.path,
      dataFolderId: randomUUID(),
      log: createRecordedLog(),
      observer: noObserver,
      idleFiles: createIdleFiles(1),
      loadChunkRows: 2_000,
    });
    onCleanup(async () => {
      await replicator.close();
      instance.closeSync();
    });
    return replicator;
  })
  .extend('insertPurchases', ({ database, shop }) => async (count: number) => {
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, n, md5(n::text) from generate_series(1, $3::int) as n`,
      [shop.organizationId, await addCustomer(database.pool, shop.organizationId), count],
    );
  })
  .extend('changePurchases', ({ database }) => async () => {
    await database.pool.query(
      `update purchases set order_number = md5(coalesce(order_number, '')) where id % 7 = 0`,
    );
  })
  /** Waits until a compaction has published what Postgres holds, and left no other base. */
  .extend('compacted', ({ database, directory, shop, folder }) => async () => {
    const stored = await storedPurchases(database.pool, shop.organizationId);
    const published = () => publishedPurchases(directory, shop.organizationId);
    const isSettled = async () => {
      if (readdirSync(folder).some((name) => /unfinished|next/.test(name))) return false;
      return JSON.stringify(await published(), digits) === JSON.stringify(stored, digits);
    };
    while (!(await isSettled())) await sleep(200);
    expect(await published()).toEqual(stored);
  })
  /** Runs a worker whose loads and compactions have many steps. */
  .extend(
    'startWorker',
    ({ program }) =>
      () =>
        program('test/support/chaos/small-chunks.ts', [], { SYNC_POLL_INTERVAL_MS: '10' }),
  );

const silent = new AbortController().signal;

describe('a compaction', () => {
  it('does not disturb a walk through pages', { tags: ['slow'] }, async ({
    database,
    shop,
    folder,
    ids,
    sync,
    engine,
    untilServed,
  }) => {
    await database.pool.query(`update purchases set order_number = 'x' where id % 3 = 0`);
    await sync();
    const base = readPublished(folder)?.base;
    const walked: bigint[] = [];
    for (let hasMore = true; hasMore; ) {
      const startingAfter = walked.at(-1);
      const query = { filters: {}, limit: 7, ...(startingAfter ? { startingAfter } : {}) };
      const { result } = await engine.list(shop.organizationId, query);
      walked.push(...result.purchases.map(({ id }) => id));
      hasMore = result.hasMore;
      if (walked.length !== 21) continue;
      await sync(0);
      await untilServed();
    }
    expect(readPublished(folder)?.base).not.toBe(base);
    expect(walked).toEqual(ids.toReversed());
  });

  it('keeps the totals exact for a customer without purchases, who has one again later', {
    tags: ['slow'],
  }, async ({ database, shop, ids, sync, engine, untilServed }) => {
    const add = (customer: bigint) =>
      addPurchase(database.pool, shop.organizationId, { customer_id: customer });
    const expectSameTotals = async () => {
      await untilServed();
      const query = { filters: {}, groupLimit: 1 };
      const postgres = createPostgresEngine(database.pool);
      expect((await engine.stats(shop.organizationId, query)).result).toEqual(
        (await postgres.stats(shop.organizationId, query)).result,
      );
    };
    const customer = await addCustomer(database.pool, shop.organizationId);
    const purchase = await add(customer);
    await sync();
    await expectSameTotals();

    await database.pool.query('delete from purchases where id = $1', [purchase]);
    await database.pool.query('update purchases set order_number = id where id = any ($1)', [ids]);
    await sync(0);
    await expectSameTotals();

    // The new base knows the customer's key, and has no row with it.
    await add(customer);
    await add(await addCustomer(database.pool, shop.organizationId));
    await sync();
    await expectSameTotals();

    await database.pool.query('delete from purchases where customer_id = $1', [customer]);
    await sync();
    await expectSameTotals();
  });

  it('ends the use of a deleted purchase as a cursor', { tags: ['slow'] }, async ({
    database,
    directory,
    shop,
    ids,
    sync,
    engine,
  }) => {
    await database.pool.query('delete from purchases where id = $1', [ids[30]]);
    await sync();
    const query = { filters: {}, limit: 3, startingAfter: ids[30] as bigint };
    const { result } = await engine.list(shop.organizationId, query);
    expect(result.purchases.map(({ id }) => id)).toEqual([ids[29], ids[28], ids[27]]);
    await sync(0);
    const postgres = createPostgresEngine(database.pool);
    await expect(postgres.list(shop.organizationId, query)).rejects.toThrow(UnknownCursorError);
    while (
      await engine.list(shop.organizationId, query).then(
        () => true,
        (error) => !(error instanceof UnknownCursorError),
      )
    ) {
      await sleep(10);
    }
    expect(await publishedPurchases(directory, shop.organizationId)).toHaveLength(purchases - 1);
  });

  const steps = [
    [
      'the new base is written',
      (names: readonly string[]) => names.includes('base.unfinished.duckdb'),
    ],
    [
      'the new base has its first delta',
      (names: readonly string[]) => names.includes('next.duckdb'),
    ],
    ['both bases are there', (names: readonly string[]) => basesIn(names).length === 2],
  ] as const;
  it.for(steps)(
    'loses nothing if the worker is killed when %s',
    { tags: ['slow'], timeout: 120_000 },
    async (
      [_, isReached],
      { folder, insertPurchases, changePurchases, startWorker, compacted },
    ) => {
      await insertPurchases(3_000);
      const worker = startWorker();
      while (readPublished(folder) === null) await sleep(5);
      await changePurchases();
      while (!isReached(readdirSync(folder))) await sleep(1);
      await worker.end('SIGKILL');
      await changePurchases();
      startWorker();
      await compacted();
    },
  );

  it('is done once if a worker that has lost its lock resumes in the middle of it', {
    tags: ['slow'],
    timeout: 120_000,
  }, async ({ database, folder, insertPurchases, changePurchases, startWorker, compacted }) => {
    await insertPurchases(3_000);
    const first = startWorker();
    while (readPublished(folder) === null) await sleep(5);
    await changePurchases();
    while (!readdirSync(folder).includes('base.unfinished.duckdb')) await sleep(1);
    first.child.kill('SIGSTOP');
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'crm-data-service sync lock%' and datname = current_database()`,
    );
    const second = startWorker();
    await second.printed(/only one worker may/);
    await changePurchases();
    first.child.kill('SIGCONT');
    await first.printed(/was lost[\s\S]*is a standby/);
    await compacted();
  });

  it('leaves the published generation if the disk is full at any step, and succeeds later', {
    tags: ['slow'],
  }, async ({ skip, database, shop, disk, replicator, insertPurchases, changePurchases }) => {
    if (!disk.canBeFilled) skip();
    await insertPurchases(8_000);
    await replicator.build('load', silent, () => {});
    const folder = organizationDirectory(disk.path, shop.organizationId);
    const compact = () => replicator.build('compact', silent, () => {});
    const failures: string[] = [];
    for (let freeBytes = 2 ** 18; ; freeBytes += 2 ** 18) {
      await changePurchases();
      await replicator.run(silent);
      const before = readPublished(folder);
      await disk.fill(freeBytes);
      const failure = await compact().then(
        () => null,
        (error: unknown) => String(error),
      );
      await disk.free();
      if (failure === null) break;
      failures.push(failure);
      expect(readPublished(folder)).toEqual(before);
      expect(readdirSync(folder).filter((name) => /unfinished|next/.test(name))).toEqual([]);
    }
    // In a transaction, and when the base is completed.
    for (const step of [/Failed to commit/, /Checkpoint failed/]) {
      expect(
        failures.some((failure) => step.test(failure)),
        failures.join('\n'),
      ).toBe(true);
    }
    // The generation before the published one keeps its base.
    for (let publications = 0; publications < 2; publications += 1) {
      await changePurchases();
      await replicator.run(silent);
    }
    expect(basesIn(readdirSync(folder))).toHaveLength(1);
    const stored = await storedPurchases(database.pool, shop.organizationId);
    expect(await publishedPurchases(disk.path, shop.organizationId)).toEqual(stored);
  });
});

const basesIn = (names: readonly string[]) =>
  names.filter((name) => /^base-[0-9a-f]+\.duckdb$/.test(name));

const digits = (_name: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value);
