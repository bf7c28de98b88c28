import { describe, expect } from 'vitest';
import { readPublished } from '../../src/purchase-store/published-generation.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { killWorkers } from '../support/killed-worker.ts';
import { areEqual, publishedPurchases, storedPurchases } from '../support/published.ts';

describe('a worker', () => {
  it('loses and duplicates no change if it is killed at any moment, and the API responds', {
    tags: ['slow'],
    timeout: 600_000,
  }, async ({ database, directory, organizationId, folder, get, program }) => {
    await killWorkers({
      database: database.pool,
      organizationId,
      kills: 12,
      startWorker: () => program('sync/main.ts', [], { SYNC_POLL_INTERVAL_MS: '10' }),
      generation: async () => readPublished(folder)?.file,
      expectTotals: async ({ purchases, revenue }) => {
        const response = await get('/v1/purchases/stats');
        expect(response.statusCode).toBe(200);
        expect(response.json()).toMatchObject({
          purchase_count: purchases,
          revenue_in_cents: revenue,
        });
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
