import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { createRandomSource } from '../../src/seed/random-source.ts';
import { test } from '../support/fixtures.ts';
import { writeKeepingTotals } from '../support/keeping-totals.ts';
import { areEqual, publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer } from '../support/shop.ts';

// To repeat a failure: the KILL_SEED that it prints.
const seed = Number(process.env.KILL_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const kills = 12;
const purchases = 400;
const valueInCents = 1_000;

const it = test
  .extend(
    'startWorker',
    ({ program }) =>
      () =>
        program('sync/main.ts', [], { SYNC_POLL_INTERVAL_MS: '10' }),
  )
  .extend(
    'generation',
    ({ directory, shop }) =>
      () =>
        readPublished(organizationDirectory(directory, shop.organizationId))?.file,
  )
  .extend('isEqual', ({ database, directory, shop }) => async () => {
    const published = await publishedPurchases(directory, shop.organizationId);
    return areEqual(published, await storedPurchases(database.pool, shop.organizationId));
  });

describe('a worker', () => {
  it('loses and duplicates no change if it is killed at any moment, and the API responds', {
    tags: ['slow'],
    timeout: 600_000,
  }, async ({ database, shop, get, startWorker, generation, isEqual }) => {
    console.log(`KILL_SEED=${seed}`);
    const random = createRandomSource('kill', seed);
    const customer = await addCustomer(database.pool, shop.organizationId);
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select $1, $2, $3 from generate_series(1, $4)`,
      [shop.organizationId, customer, valueInCents, purchases],
    );
    let isWriting = true;
    let transactions = 0;
    const writers = [1, 2, 3].map(async () => {
      while (isWriting) {
        transactions += 1;
        await writeKeepingTotals(database.pool, shop.organizationId, seed + transactions);
        await sleep(10);
      }
    });
    let isReading = true;
    let responses = 0;
    const reader = (async () => {
      for (; isReading; responses += 1) {
        const response = await get('/v1/purchases/stats');
        expect(response.statusCode).toBe(200);
        // Every transaction keeps the totals: none is visible in part or twice.
        expect(response.json()).toMatchObject({
          purchase_count: purchases,
          revenue_in_cents: purchases * valueInCents,
        });
        await sleep(20);
      }
    })();
    // Its failure is reported when it is awaited.
    reader.catch(() => {});

    const generations = new Set<string | undefined>();
    for (let kill = 0; kill < kills; kill += 1) {
      const worker = startWorker();
      await worker.printed(/following changes/);
      const mustPublish = kill % 2 === 1;
      while (mustPublish && (generation() === undefined || generations.has(generation()))) {
        await sleep(5);
      }
      // Runs start every 250 ms: the kill falls into any step of a run.
      await sleep(random.integer(mustPublish ? 250 : 1_000));
      await worker.end('SIGKILL');
      generations.add(generation());
    }
    expect(generations.size).toBeGreaterThanOrEqual(kills / 2);
    isWriting = false;
    await Promise.all(writers);
    startWorker();
    while (!(await isEqual())) await sleep(50);
    isReading = false;
    await reader;
    expect(transactions).toBeGreaterThan(kills);
    expect(responses).toBeGreaterThan(kills);
  });
});
