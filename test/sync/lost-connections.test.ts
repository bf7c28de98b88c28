import { join } from 'node:path';
import sql from 'sql-template-tag';
import { afterEach, describe, expect } from 'vitest';
import { createPool, type Database, withSnapshot } from '../../src/postgres/pool.ts';
import { stream } from '../../sync/capture/row-stream.ts';
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

type Steps = {
  readonly before?: () => Promise<unknown>;
  readonly first?: number;
  readonly step?: number;
};

describe.each([
  ['tells why', true],
  ['tells nothing', false],
])('a connection that breaks, wherever that is, and %s', { timeout: 300_000 }, (_, tellsWhy) => {
  let proxy: PostgresProxy;

  it.beforeEach(async ({ database }) => {
    proxy = await createPostgresProxy(database.url);
    proxy.tellsWhy = tellsWhy;
  });
  afterEach(async () => {
    await proxy.close();
  });
  /**
   * What the work comes to where its connections are lost after each number of messages in turn,
   * `step` apart.
   */
  const afterEachMessage = async <Outcome>(
    work: () => Promise<Outcome>,
    { before = async () => {}, first = 0, step = 1 }: Steps = {},
  ): Promise<{ readonly lost: number; readonly outcomes: Outcome[] }> => {
    const outcomes: Outcome[] = [];
    let lost = 0;
    for (let messages = first; ; messages += step) {
      await before();
      proxy.messagesLeft = messages;
      await work().then(
        (outcome) => {
          outcomes.push(outcome);
        },
        () => {
          lost += 1;
        },
      );
      const isOver = proxy.messagesLeft > 0;
      proxy.messagesLeft = Number.POSITIVE_INFINITY;
      if (isOver) return { lost, outcomes };
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
    // A load takes long: one kind of loss comes after the even numbers, the other after the odd.
    const steps = { first: tellsWhy ? 0 : 1, step: 2 };
    const loads = await afterEachMessage(worker.syncAll, steps);
    const before = async () => {
      await worker.syncAll();
      await addMany(1);
    };
    const passes = await afterEachMessage(worker.syncAll, { ...steps, before });
    expect(loads.lost).toBeGreaterThan(20);
    expect(passes.lost).toBeGreaterThan(20);
    await worker.close();
    await pool.end();
    expect(await publishedPurchases(directory, shop.organizationId)).toEqual(
      await storedPurchases(database.pool, shop.organizationId),
    );
  });
});
