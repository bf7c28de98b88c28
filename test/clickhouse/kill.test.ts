import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { createRandomSource } from '../../src/seed/random-source.ts';
import {
  currentPurchases,
  inChanges,
  inLoad,
  readNewest,
} from '../../sync/clickhouse/generations.ts';
import { writeKeepingTotals } from '../support/keeping-totals.ts';
import { areEqual, storedPurchases } from '../support/published.ts';
import { addCustomer } from '../support/shop.ts';
import { clickHouseTest, publishedPurchases } from './fixtures.ts';

// To repeat a failure: the KILL_SEED that it prints.
const seed = Number(process.env.KILL_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const kills = 8;
const purchases = 400;
const valueInCents = 1_000;

const it = clickHouseTest
  .extend(
    'startWorker',
    ({ program, server }) =>
      () =>
        program('sync/main.ts', [], {
          SYNC_POLL_INTERVAL_MS: '10',
          ...server.environment,
        }),
  )
  .extend('isEqual', ({ clickhouse, database, shop: { organizationId } }) => async () => {
    const published = await publishedPurchases(clickhouse, organizationId);
    return areEqual(published, await storedPurchases(database.pool, organizationId));
  });

describe('a worker that writes to ClickHouse', () => {
  it('loses and duplicates no change if it is killed at any moment', {
    timeout: 600_000,
  }, async ({ clickhouse, database, shop, startWorker, isEqual }) => {
    console.log(`KILL_SEED=${seed}`);
    const random = createRandomSource('kill', seed);
    const { organizationId } = shop;
    const newest = () => readNewest(clickhouse, organizationId);
    const customer = await addCustomer(database.pool, organizationId);
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select $1, $2, $3 from generate_series(1, $4)`,
      [organizationId, customer, valueInCents, purchases],
    );
    let isWriting = true;
    let transactions = 0;
    const writers = [1, 2, 3].map(async () => {
      while (isWriting) {
        transactions += 1;
        await writeKeepingTotals(database.pool, organizationId, seed + transactions);
        await sleep(10);
      }
    });
    let isReading = true;
    let results = 0;
    const reader = (async () => {
      while (isReading) {
        const generation = await newest().catch(() => null);
        if (generation !== null) {
          const columns = raw('id, purchase_value_in_cents as cents');
          const signed = raw('sum(sign), sum(sign * purchase_value_in_cents)');
          const [row] = await clickhouse.query(sql`
            select count(), uniqExact(id), sum(cents) from ${currentPurchases(generation, columns)}`);
          const [base] = await clickhouse.query(sql`
            select count(), sum(purchase_value_in_cents) ${inLoad(generation)}`);
          const [changes] = await clickhouse.query(sql`select ${signed} ${inChanges(generation)}`);
          const sums = [0, 1].map((index) => Number(base?.[index]) + Number(changes?.[index]));
          // Every transaction keeps the totals: none is visible in part or twice.
          const revenue = purchases * valueInCents;
          expect([...(row ?? []).map(Number), ...sums]).toEqual([
            purchases,
            purchases,
            revenue,
            purchases,
            revenue,
          ]);
          results += 1;
        }
        await sleep(20);
      }
    })();
    // Its failure is reported when it is awaited.
    reader.catch(() => {});

    const generations = new Set<bigint | undefined>();
    for (let kill = 0; kill < kills; kill += 1) {
      const worker = startWorker();
      await worker.printed(/following changes/);
      const mustPublish = kill % 2 === 1;
      while (mustPublish) {
        const number = (await newest().catch(() => null))?.number;
        if (number !== undefined && !generations.has(number)) break;
        await sleep(5);
      }
      // Runs start every 250 ms: the kill falls into any step of a run.
      await sleep(random.integer(mustPublish ? 250 : 1_000));
      await worker.end('SIGKILL');
      generations.add((await newest().catch(() => null))?.number);
    }
    expect(generations.size).toBeGreaterThanOrEqual(kills / 2);
    isWriting = false;
    await Promise.all(writers);
    startWorker();
    while (!(await isEqual())) await sleep(50);
    isReading = false;
    await reader;
    expect(transactions).toBeGreaterThan(kills);
    expect(results).toBeGreaterThan(kills);
  });
});
