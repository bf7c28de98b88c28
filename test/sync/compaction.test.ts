import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { UnknownCursorError } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { areEqual, publishedPurchases, storedPurchases, untilShown } from '../support/published.ts';
import { publishedFiles } from '../support/published-files.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { syncOnce } from '../support/sync.ts';

const purchases = 60;

const it = test
  /** Publishes what Postgres holds, and compacts the log if it has more records than `maxLogRecords`. */
  .extend('sync', ({ database, directory }) => (maxLogRecords = 20_000) => {
    const options = { maxLogRecords, loadChunkRows: 20, maxPurchasesWithoutBase: 0 };
    return syncOnce(database.pool, directory, options);
  })
  /** Waits until the engine shows what is published. */
  .extend('untilServed', ({ engine, directory, shop }) => () => {
    return untilShown(engine, directory, shop.organizationId);
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
  /** Waits until a compaction has published what Postgres holds, and left no other files. */
  .extend('compacted', ({ database, directory, shop, folder }) => async () => {
    const stored = await storedPurchases(database.pool, shop.organizationId);
    const published = () => publishedPurchases(directory, shop.organizationId);
    const isSettled = async () => {
      const { base, log } = publishedFiles(folder) ?? {};
      const names = readdirSync(folder).filter((name) => isStoreFile.test(name));
      if (names.sort().join() !== [base, log].join()) return false;
      return areEqual(await published(), stored);
    };
    while (!(await isSettled())) await sleep(200);
    expect(await published()).toEqual(stored);
  })
  /** Runs a worker whose loads and compactions have many steps. */
  .extend(
    'startWorker',
    ({ program }) =>
      () =>
        program('test/support/chaos/small-limits.ts', [], { SYNC_POLL_INTERVAL_MS: '10' }),
  );

describe('a compaction', { tags: ['slow'] }, () => {
  it('does not disturb a walk through pages', async ({
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
    const base = publishedFiles(folder)?.base;
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
    expect(publishedFiles(folder)?.base).not.toBe(base);
    expect(walked).toEqual(ids.toReversed());
  });

  it('keeps the totals exact for a customer without purchases, who has one again later', async ({
    database,
    shop,
    ids,
    sync,
    engine,
    untilServed,
  }) => {
    const add = (customer: bigint) =>
      addPurchase(database.pool, shop.organizationId, { customer_id: customer });
    const expectSameTotals = async () => {
      await untilServed();
      const query = { filters: {}, groupLimit: 1 };
      const postgres = createPostgresEngine(database.pool);
      expect((await readPurchaseStats(engine, shop.organizationId, query)).result).toEqual(
        (await readPurchaseStats(postgres, shop.organizationId, query)).result,
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

  it('ends the use of a deleted purchase as a cursor', async ({
    database,
    directory,
    shop,
    ids,
    sync,
    engine,
  }) => {
    // A compaction needs changes of more than 2 % of the base.
    await database.pool.query('delete from purchases where id = any ($1)', [[ids[30], ids[50]]]);
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
    expect(await publishedPurchases(directory, shop.organizationId)).toHaveLength(purchases - 2);
  });

  it('is done once if a worker that has lost its lock resumes in the middle of it, and another takes over', async ({
    database,
    folder,
    insertPurchases,
    changePurchases,
    startWorker,
    compacted,
  }) => {
    await insertPurchases(3_000);
    const first = startWorker();
    while (publishedFiles(folder) === null) await sleep(5);
    await changePurchases();
    while (!readdirSync(folder).includes('base.merged.duckdb')) await sleep(1);
    first.child.kill('SIGSTOP');
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name like 'crm-data-service sync lock%' and datname = current_database()`,
    );
    const second = startWorker();
    await second.printed(/only one worker may/);
    expect(second.output()).not.toMatch(/following changes/);
    await changePurchases();
    first.child.kill('SIGCONT');
    await first.printed(/was lost[\s\S]*is a standby/);
    await second.printed(/following changes/);
    await compacted();
  });
});

const isStoreFile = /^(?!delta-[0-9a-f]+\.duckdb$).*\.(duckdb|tsv|wal|csv|unfinished)$/;
