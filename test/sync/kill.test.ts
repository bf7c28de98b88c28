import { describe, expect } from 'vitest';
import { isolatedTest as it } from '../support/fixtures.ts';
import { killWorkers } from '../support/killed-worker.ts';
import { areEqual, publishedPurchases, storedPurchases } from '../support/published.ts';

const programs = ['sync/main.ts', 'test/support/chaos/small-chunks.ts'];

describe('a worker', { tags: ['slow'] }, () => {
  it('loses and duplicates no change if it is killed at any moment, and the API responds', async ({
    database,
    directory,
    organizationId,
    engine,
    get,
    program,
  }) => {
    let started = 0;
    let shown = '';
    await killWorkers({
      database: database.pool,
      organizationId,
      kills: 16,
      startWorker: () => {
        started += 1;
        // Two with each program: kills differ by turns.
        const path = programs[Math.floor(started / 2) % 2] as string;
        return program(path, [], { SYNC_POLL_INTERVAL_MS: '10' });
      },
      generation: async () => (await engine.version(organizationId))?.name,
      expectTotals: async ({ purchases, revenue }) => {
        const response = await get('/v1/purchases/stats');
        expect(response.statusCode).toBe(200);
        expect(response.json()).toMatchObject({
          purchase_count: purchases,
          revenue_in_cents: revenue,
        });
        const asOf = String(response.headers['x-data-as-of']);
        expect(asOf >= shown, `${asOf} after ${shown}`).toBe(true);
        shown = asOf;
        return true;
      },
      isEqual: async () =>
        areEqual(
          await publishedPurchases(directory, organizationId),
          await storedPurchases(database.pool, organizationId),
        ),
    });
  });
});
