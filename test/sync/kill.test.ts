import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, describe, expect } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { Database } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

const kills = 20;
const purchases = 400;
const valueInCents = 1_000;

const it = test
  .extend(
    'startWorker',
    ({ database, directory }) =>
      () =>
        runProgram('sync/main.ts', [], {
          DATABASE_URL: database.url,
          DATA_DIR: directory,
          SYNC_POLL_INTERVAL_MS: '10',
        }),
  )
  .extend('stats', ({ get }) => async () => {
    const response = await get('/v1/purchases/stats');
    expect(response.statusCode).toBe(200);
    const { purchase_count: count, revenue_in_cents: revenue } = response.json();
    return { count, revenue };
  })
  .extend(
    'current',
    ({ directory, shop }) =>
      () =>
        readPublished(organizationDirectory(directory, shop.organizationId))?.file,
  )
  /** Waits for a generation other than those seen. */
  .extend(
    'published',
    ({ current }) =>
      async (seen: ReadonlySet<string | undefined>): Promise<void> => {
        while (current() === undefined || seen.has(current())) await sleep(5);
      },
  )
  .extend('pendingChanges', ({ database, directory }) => async (): Promise<number> => {
    const status = runProgram('sync/main.ts', ['status', '--json'], {
      DATABASE_URL: database.url,
      DATA_DIR: directory,
    });
    expect(await status.exited()).toBe(0);
    const { organizations } = JSON.parse(status.output()) as {
      organizations: { pendingChanges: number | null }[];
    };
    return organizations.reduce((sum, { pendingChanges }) => sum + (pendingChanges ?? 1), 0);
  })
  /** Waits until a purchase written now is visible: then everything before it is as well. */
  .extend(
    'caughtUp',
    ({ database, directory, shop, pendingChanges }) =>
      async (): Promise<void> => {
        const other = await addOrganization(database.pool);
        const customer = await addCustomer(database.pool, other);
        const engine = await createTestDuckDBEngine(directory);
        const last = await addPurchase(database.pool, shop.organizationId, {
          customer_id: await addCustomer(database.pool, shop.organizationId),
          purchase_value_in_cents: 0,
          created_at: '2020-01-01T00:00:00Z',
        });
        await database.pool.query('delete from purchases where id = $1', [last]);
        const marker = await addPurchase(database.pool, other, { customer_id: customer });
        while (
          (await engine.freshness(other)) === null ||
          (await engine.get(other, marker)).result === null ||
          (await pendingChanges()) > 0
        ) {
          await sleep(50);
        }
        await engine.close();
      },
  )
  .extend('expectEqualToPostgres', ({ database, directory, shop }) => async (): Promise<void> => {
    const duckdb = await createTestDuckDBEngine(directory);
    const postgres = createPostgresEngine(database.pool);
    let startingAfter: bigint | undefined;
    for (let hasMore = true; hasMore; ) {
      const query = {
        filters: {},
        limit: 100,
        ...(startingAfter === undefined ? {} : { startingAfter }),
      };
      const [copy, original] = await Promise.all([
        duckdb.list(shop.organizationId, query),
        postgres.list(shop.organizationId, query),
      ]);
      expect(copy.result).toEqual(original.result);
      hasMore = original.result.hasMore;
      startingAfter = original.result.purchases.at(-1)?.id;
    }
    await duckdb.close();
  });

describe('a sync worker killed at any moment', () => {
  let worker: Program;

  it.beforeAll(async ({ database, shop }) => {
    const customer = await addCustomer(database.pool, shop.organizationId);
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select $1, $2, $3 from generate_series(1, $4)`,
      [shop.organizationId, customer, valueInCents, purchases],
    );
  });

  afterAll(async () => {
    await worker?.end('SIGKILL');
  });

  it('loses nothing, doubles nothing, and the API answers throughout', {
    timeout: 600_000,
  }, async ({
    database,
    shop,
    startWorker,
    stats,
    current,
    published,
    caughtUp,
    expectEqualToPostgres,
  }) => {
    let writing = true;
    let transactions = 0;
    const writers = [1, 2, 3].map(async (seed) => {
      while (writing) {
        await writeKeepingTotals(database.pool, shop.organizationId, seed + transactions);
        transactions += 1;
        await sleep(10);
      }
    });
    let reading = true;
    const generations = new Set<string | undefined>();
    let answers = 0;
    const reader = (async () => {
      while (reading) {
        // Whatever moment it shows, no transaction may be in it by half or twice.
        expect(await stats()).toEqual({ count: purchases, revenue: purchases * valueInCents });
        answers += 1;
        await sleep(5);
      }
    })();

    for (let kill = 0; kill < kills; kill += 1) {
      worker = startWorker();
      await worker.printed(/following changes/);
      // Every other worker publishes something first, however slow the machine.
      if (kill % 2 === 1) await published(generations);
      // Batches follow each other every 250 ms: the next blow falls anywhere in one.
      await sleep(Math.random() * (kill % 2 === 1 ? 250 : 1_000));
      await worker.end('SIGKILL');
      generations.add(current());
    }
    expect(generations.size).toBeGreaterThanOrEqual(kills / 2);
    worker = startWorker();
    writing = false;
    await Promise.all(writers);
    await caughtUp();
    reading = false;
    await reader;
    expect(transactions).toBeGreaterThan(kills);
    expect(answers).toBeGreaterThan(kills);
    await expectEqualToPostgres();
  });
});

/** Moves money between purchases, and replaces purchases by others of the same value. */
async function writeKeepingTotals(
  database: Database,
  organizationId: bigint,
  round: number,
): Promise<void> {
  const connection = await database.connect();
  try {
    await connection.query('begin');
    if (round % 3 === 0) {
      await connection.query(
        `with gone as (
           delete from purchases where id in (
             select id from purchases where organization_id = $1 order by random() limit 5 for update skip locked
           ) returning *
         )
         insert into purchases (organization_id, customer_id, purchase_value_in_cents, utm_source)
         select organization_id, customer_id, purchase_value_in_cents, 'round ' || $2::int % 50 from gone`,
        [organizationId, round],
      );
    } else {
      await connection.query(
        `with picked as (
           select id, row_number() over () as place from (
             select id from purchases where organization_id = $1 order by random() limit 2 for update skip locked
           ) as any_two
         ), changed as (
           select id, case place when 1 then 7 else -7 end as difference
           from picked where (select count(*) from picked) = 2
         )
         update purchases
         set purchase_value_in_cents = purchase_value_in_cents + difference, updated_at = now()
         from changed where purchases.id = changed.id`,
        [organizationId],
      );
    }
    await connection.query(round % 7 === 0 ? 'rollback' : 'commit');
  } finally {
    connection.release();
  }
}
