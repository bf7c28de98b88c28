import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { createRandomSource } from '../../src/seed/random-source.ts';
import { writeKeepingTotals } from './keeping-totals.ts';
import type { Program } from './program.ts';
import { addCustomer } from './shop.ts';

// To repeat a failure: the KILL_SEED that it prints.
const seed = Number(process.env.KILL_SEED ?? Math.floor(Math.random() * 1_000_000_000));
const purchases = 400;
const valueInCents = 1_000;

type Totals = { readonly purchases: number; readonly revenue: number };

type Options = {
  readonly database: Database;
  readonly organizationId: bigint;
  readonly kills: number;
  startWorker(): Program;
  /** The newest published generation; undefined if there is none. */
  generation(): Promise<string | bigint | undefined>;
  /** Requires that the published purchases have these totals. False if nothing can be read yet. */
  expectTotals(totals: Totals): Promise<boolean>;
  /** Whether the published purchases are those of Postgres. */
  isEqual(): Promise<boolean>;
};

/** Kills workers at random moments, while writers change purchases and a reader checks the totals. */
export async function killWorkers(options: Options): Promise<void> {
  const { database, organizationId, kills, startWorker, generation } = options;
  console.log(`KILL_SEED=${seed}`);
  const random = createRandomSource('kill', seed);
  const customer = await addCustomer(database, organizationId);
  await database.query(
    `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
     select $1, $2, $3 from generate_series(1, $4)`,
    [organizationId, customer, valueInCents, purchases],
  );
  let isWriting = true;
  let transactions = 0;
  const writers = [1, 2, 3].map(async () => {
    while (isWriting) {
      transactions += 1;
      await writeKeepingTotals(database, organizationId, seed + transactions);
      await sleep(10);
    }
  });
  let isReading = true;
  let results = 0;
  const reader = (async () => {
    while (isReading) {
      // Every transaction keeps the totals: none is visible in part or twice.
      const totals = { purchases, revenue: purchases * valueInCents };
      if (await options.expectTotals(totals)) results += 1;
      await sleep(20);
    }
  })();
  // Its failure is reported when it is awaited.
  reader.catch(() => {});

  const generations = new Set<string | bigint | undefined>();
  for (let kill = 0; kill < kills; kill += 1) {
    const worker = startWorker();
    await worker.printed(/following changes/);
    const mustPublish = kill % 2 === 1;
    while (mustPublish) {
      const newest = await generation();
      if (newest !== undefined && !generations.has(newest)) break;
      await sleep(5);
    }
    // Ticks and compactions follow one another: the kill falls into any step of them.
    await sleep(random.integer(mustPublish ? 250 : 1_000));
    await worker.end('SIGKILL');
    generations.add(await generation());
  }
  expect(generations.size).toBeGreaterThanOrEqual(kills / 2);
  isWriting = false;
  await Promise.all(writers);
  startWorker();
  while (!(await options.isEqual())) await sleep(50);
  isReading = false;
  await reader;
  expect(transactions).toBeGreaterThan(kills);
  expect(results).toBeGreaterThan(kills);
}
