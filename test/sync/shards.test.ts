import { describe, expect } from 'vitest';
import { everyOrganization, isOfShard, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { addMarker, type Marker, untilShown } from '../support/marker.ts';
import { areEqual, publishedPurchases, storedPurchases } from '../support/published.ts';
import { addACent, addOrganization, addPurchases } from '../support/shop.ts';
import { follow, type TestWorker } from '../support/sync.ts';

const halves: readonly Shard[] = [1, 2].map((number) => ({ number, of: 2 }));

const it = isolatedTest
  /** Markers in six organizations with 20 purchases each. */
  .extend('markers', async ({ database: { pool } }) => {
    const markers: Marker[] = [];
    for (let count = 0; count < 6; count += 1) {
      const marker = await addMarker(pool, await addOrganization(pool));
      await addPurchases(pool, marker.organizationId, marker.customerId, 20);
      markers.push(marker);
    }
    return markers;
  })
  /** Runs workers of these shards, which must not build, while `work` runs. */
  .extend(
    'withWorkers',
    ({ openWorker }) =>
      async (shards: readonly Shard[], work: (workers: TestWorker[]) => Promise<void>) => {
        const built: string[] = [];
        const workers: TestWorker[] = [];
        for (const shard of shards) {
          const worker = await openWorker({
            shard,
            onReport: (id, { state }) => void built.push(`${id} is ${state}`),
          });
          workers.push(worker);
        }
        const stops = workers.map(follow);
        await work(workers);
        for (const stop of stops) await stop();
        for (const worker of workers) await worker.close();
        expect(built).toEqual([]);
      },
  );

describe('a change of the number of shards', () => {
  it('continues without a build, and instants do not go back', { tags: ['slow'] }, async ({
    database,
    directory,
    markers,
    engine,
    openWorker,
    withWorkers,
  }) => {
    const first = await openWorker();
    await first.syncAll();
    await first.close();
    for (const shards of [[everyOrganization], halves, [everyOrganization], halves]) {
      const before = await Promise.all(markers.map((marker) => marker.read(engine)));
      // While no worker runs.
      for (const marker of markers) await marker.increment();
      // Not of the markers, the first purchase of each organization.
      await database.pool.query(
        `${addACent} where id % 5 = 0
         and id not in (select min(id) from purchases group by organization_id)`,
      );
      await withWorkers(shards, async () => {
        for (let round = 0; round < 3; round += 1) {
          for (const [index, marker] of markers.entries()) {
            // So that one shard is ahead of the other.
            if (round > 0 && isOfShard(marker.organizationId, halves[0] as Shard)) continue;
            await marker.increment();
            const { asOf } = await untilShown(marker, engine);
            expect(asOf).toBeGreaterThanOrEqual(before[index]?.asOf ?? 0n);
          }
        }
        for (const marker of markers) await untilShown(marker, engine);
      });
    }
    for (const { organizationId } of markers) {
      const published = await publishedPurchases(directory, organizationId);
      expect(areEqual(published, await storedPurchases(database.pool, organizationId))).toBe(true);
    }
  });
});
