import { describe, expect } from 'vitest';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { test } from '../support/fixtures.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

const it = test.extend('buy', ({ database: { pool } }) => async (organizationId: bigint) => {
  const customer_id = await addCustomer(pool, organizationId);
  await addPurchase(pool, organizationId, { customer_id });
});

describe('a worker of many organizations', () => {
  it('publishes all of them at once, and keeps none of their files open', async ({
    database,
    directory,
    worker,
    engine,
    buy,
  }) => {
    const organizations: bigint[] = [];
    for (let count = 0; count < 8; count += 1) {
      organizations.push(await addOrganization(database.pool));
    }
    const instants = async () => {
      const read = organizations.map((id) => engine.freshness(id));
      return new Set(await Promise.all(read));
    };
    for (const purchases of [1, 2, 3]) {
      for (const organization of organizations) await buy(organization);
      await worker.once(organizations);
      for (const organization of organizations) {
        const { result } = await readPurchaseStats(engine, organization, {
          filters: {},
          groupLimit: 1,
        });
        expect(result.purchaseCount).toBe(BigInt(purchases));
      }
      expect((await instants()).size).toBe(1);
    }
    await engine.close();
    if (canListOpenFiles) expect(openFilesUnder(directory)).toEqual([]);
  });
});
