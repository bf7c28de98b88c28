import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import { inBase, inChanges } from '../../src/engines/clickhouse/relations.ts';
import { newestPurchases } from '../../sync/clickhouse/newest-purchases.ts';
import { purchasesById } from '../support/follower.ts';
import { killWorkers } from '../support/killed-worker.ts';
import { areEqual } from '../support/published.ts';
import { clickHouseTest as it } from './fixtures.ts';

describe('a worker that writes to ClickHouse', () => {
  it('loses and duplicates no change if it is killed at any moment, also in the change feed', {
    tags: ['slow'],
  }, async ({ clickhouse, program, server, follower, replica }) => {
    let isFollowing = true;
    const following = (async () => {
      while (isFollowing) if (!(await follower.step(20))) await sleep(10);
    })();
    // Its failure is reported when it is awaited.
    following.catch(() => {});
    const newest = () => newestGeneration(clickhouse, replica.id, undefined).catch(() => null);
    let shown = 0n;
    await killWorkers({
      database: replica.pool,
      organizationId: replica.id,
      kills: 8,
      startWorker: () =>
        program('sync/main.ts', [], { SYNC_POLL_INTERVAL_MS: '10', ...server.environment }),
      generation: async () => (await newest())?.name,
      expectTotals: async ({ purchases, revenue }) => {
        const generation = await newest();
        if (generation === null) return false;
        expect(generation.asOf).toBeGreaterThanOrEqual(shown);
        shown = generation.asOf;
        const columns = raw('id, purchase_value_in_cents as cents');
        const signed = raw('sum(sign), sum(sign * purchase_value_in_cents)');
        const [row] = await clickhouse.query(sql`
          select count(), uniqExact(id), sum(cents) from ${newestPurchases(generation, columns)}`);
        const [base] = await clickhouse.query(sql`
          select count(), sum(purchase_value_in_cents) ${inBase(generation, {})}`);
        const [changes] = await clickhouse.query(
          sql`select ${signed} ${inChanges(generation, {})}`,
        );
        const sums = [0, 1].map((index) => Number(base?.[index]) + Number(changes?.[index]));
        expect([...(row ?? []).map(Number), ...sums]).toEqual([
          purchases,
          purchases,
          revenue,
          purchases,
          revenue,
        ]);
        return true;
      },
      isEqual: async () => areEqual(await replica.published(), await replica.stored()),
    });
    isFollowing = false;
    await following;
    await follower.catchUp();
    expect(new Map(follower.purchases)).toEqual(await purchasesById(replica.pool, replica.id));
    expect(follower.copies).toBe(1);
  });
});
