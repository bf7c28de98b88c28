import { join } from 'node:path';
import sql from 'sql-template-tag';
import { afterEach, describe, expect } from 'vitest';
import { createPool, type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { stream } from '../../sync/capture/source.ts';
import { copyPurchases } from '../../sync/load/copy-purchases.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createPostgresProxy, type PostgresProxy } from '../support/postgres-proxy.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addPurchases } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const it = isolatedTest.extend(
  'addMany',
  ({ database, shop, customerId }) =>
    (count: number) =>
      addPurchases(database.pool, shop.organizationId, customerId, count),
);

describe.each([
  ['tells why', true],
  ['tells nothing', false],
])('a connection that breaks, wherever that is, and %s', (_, tellsWhy) => {
  let proxy: PostgresProxy;

  it.beforeEach(async ({ database }) => {
    proxy = await createPostgresProxy(database.url);
    proxy.tellsWhy = tellsWhy;
  });
  afterEach(async () => {
    await proxy.close();
  });
  /** What the work comes to where its connections are lost after each number of messages in turn. */
  const afterEachMessage = async <Outcome>(
    work: () => Promise<Outcome>,
    before: () => Promise<unknown> = async () => {},
  ): Promise<{ readonly lost: number; readonly outcomes: Outcome[] }> => {
    const outcomes: Outcome[] = [];
    for (let messages = 0; ; messages += 1) {
      await before();
      proxy.messagesLeft = messages;
      await work().then(
        (outcome) => outcomes.push(outcome),
        () => {},
      );
      const isOver = proxy.messagesLeft > 0;
      proxy.messagesLeft = Number.POSITIVE_INFINITY;
      if (isOver) return { lost: messages + 1 - outcomes.length, outcomes };
    }
  };
  const afterEachMessageTo = <Outcome>(work: (pool: Database) => Promise<Outcome>) =>
    afterEachMessage(async () => {
      const pool = createPool(proxy.url, { max: 2, applicationName: 'test' });
      return work(pool).finally(() => pool.end());
    });

  it('ends a stream of rows with an error', async () => {
    const { lost, outcomes } = await afterEachMessageTo((pool) =>
      withSnapshot(pool, async (connection) => {
        const rows: unknown[] = [];
        for await (const [row] of stream(connection, sql`select generate_series(1, 3)`)) {
          rows.push(row);
        }
        return rows;
      }),
    );
    expect(lost).toBeGreaterThan(20);
    for (const rows of outcomes) expect(rows).toEqual([1, 2, 3]);
  });

  it('ends a copy of purchases with an error', async ({ directory, shop, addMany }) => {
    await addMany(3);
    const file = join(directory, 'chunk.csv');
    const from = { organizationId: shop.organizationId, after: null, rows: 10 };
    const limits = { maxBytes: 1000, beforeWriting: async () => {} };
    const { lost, outcomes } = await afterEachMessageTo((pool) =>
      copyPurchases(pool, from, file, limits, new AbortController().signal),
    );
    expect(lost).toBeGreaterThan(40);
    for (const chunk of outcomes) expect(chunk).toMatchObject({ rows: 3, until: null });
  });

  it('fails a pass of the worker, and the next one goes on from there', async ({
    database,
    directory,
    shop,
    addMany,
  }) => {
    const pool = createPool(proxy.url, { max: 4, applicationName: 'test' });
    const worker = await createTestWorker(pool, directory);
    await addMany(3);
    const loads = await afterEachMessage(worker.syncAll);
    const passes = await afterEachMessage(worker.syncAll, async () => {
      await worker.syncAll();
      await addMany(1);
    });
    expect(loads.lost).toBeGreaterThan(40);
    expect(passes.lost).toBeGreaterThan(40);
    await worker.close();
    await pool.end();
    expect(await publishedPurchases(directory, shop.organizationId)).toEqual(
      await storedPurchases(database.pool, shop.organizationId),
    );
  });
});
