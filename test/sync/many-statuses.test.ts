import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { readUsage } from '../../bench/measure/process-usage.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { publishedFiles } from '../support/published-files.ts';

/** More changes than a log keeps without a compaction. */
const purchases = 21_000;
const maxBytes = 700_000_000;

const it = test
  /** Purchases of as many customers, each with a payment status of its own. */
  .extend('addPurchases', ({ database: { pool }, organizationId }) => async () => {
    await pool.query(
      'insert into customers (organization_id) select $1 from generate_series(1, $2::int)',
      [organizationId, purchases],
    );
    await pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, payment_status)
       select organization_id, id, 100, 'loaded ' || id from customers`,
    );
  })
  .extend('untilMerged', ({ folder }) => async (before: string | null | undefined) => {
    for (;;) {
      const { base } = publishedFiles(folder) ?? {};
      if (base !== undefined && base !== before) return base;
      await sleep(20);
    }
  });

describe('a worker', { tags: ['slow'] }, () => {
  it.skipIf(process.platform !== 'linux')(
    'needs no memory for each payment status, in a load, a compaction and a catch-up',
    async ({ database: { pool }, addPurchases, untilMerged, program, expectEqual }) => {
      await addPurchases();
      const worker = program('sync/main.ts');
      const requireLittleMemory = () =>
        expect(readUsage(worker.child.pid as number)?.peakResidentBytes).toBeLessThan(maxBytes);
      const loaded = await untilMerged(null);
      requireLittleMemory();
      await pool.query(`update purchases set payment_status = 'compacted ' || id`);
      const compacted = await untilMerged(loaded);
      requireLittleMemory();
      // More bytes than a tick reads.
      await pool.query(
        `update purchases set payment_status = 'caught up ' || id, order_number = repeat('1', 900)`,
      );
      await untilMerged(compacted);
      requireLittleMemory();
      expect(worker.output()).toMatch(/"compacting".*"catching up"/s);
      await expectEqual();
    },
  );
});
