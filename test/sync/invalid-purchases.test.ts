import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { everyOrganization } from '../../src/purchase-store/shard.ts';
import { type OrganizationReport, readWorkerState } from '../../sync/status/worker-state.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addPurchase, type PurchaseValues } from '../support/shop.ts';

const it = test
  /** Adds purchases that the checks of Postgres would reject. */
  .extend('add', { scope: 'file' }, async ({ database: { pool } }) => {
    await pool.query(`
      alter domain instant drop constraint instant_check;
      alter table purchases drop constraint purchases_coupons_check`);
    return async (organizationId: bigint, values: Omit<PurchaseValues, 'customer_id'> = {}) => {
      const customer = await addCustomer(pool, organizationId);
      await addPurchase(pool, organizationId, { customer_id: customer, ...values });
    };
  })
  .extend('organizationId', async ({ newShop: { organizationId }, add }) => {
    await add(organizationId);
    return organizationId;
  })
  .extend(
    'untilReported',
    ({ directory }) =>
      async (
        id: bigint,
        matches: (report: OrganizationReport | undefined) => boolean,
      ): Promise<OrganizationReport | undefined> => {
        for (;;) {
          const report = readWorkerState(directory, everyOrganization)?.organizations[String(id)];
          if (matches(report)) return report;
          await sleep(20);
        }
      },
  );

describe('a purchase that cannot be copied', () => {
  it.for(['a load', 'a change'])(
    'is reported without its content, and delays only its organization: in %s',
    { tags: ['slow'] },
    async (
      place,
      {
        database,
        organizationId,
        otherShop: { organizationId: other },
        add,
        engine,
        followChanges,
        untilReported,
        untilPublished,
        expectEqual,
      },
    ) => {
      const addInvalid = () =>
        add(organizationId, { created_at: 'infinity', order_number: 'SECRET-7' });
      if (place === 'a load') await addInvalid();
      followChanges();
      if (place === 'a change') {
        await untilPublished(1);
        await addInvalid();
      }
      const hasFailed = (report?: OrganizationReport) => report?.failure != null;
      const failure = (await untilReported(organizationId, hasFailed))?.failure;
      expect(failure?.message).toBe('A purchase holds a value that cannot be copied.');
      expect(failure?.advice).toMatch(/Correct rows that violate a constraint/);
      expect(JSON.stringify(failure)).not.toMatch(/SECRET|infinity/);
      const count = async (id: bigint) => {
        const query = { filters: {}, groupLimit: 1 };
        return Number((await engine.stats(id, query)).result.purchaseCount);
      };
      if (place === 'a change') expect(await count(organizationId)).toBe(1);
      else await expect(count(organizationId)).rejects.toThrow(NoGenerationError);

      const before = await count(other).catch(() => 0);
      await add(other);
      await untilPublished(before + 1, other);

      await database.pool.query(
        `update purchases set created_at = now() where created_at = 'infinity'`,
      );
      await untilReported(organizationId, (report) => report?.failure == null);
      await untilPublished(2);
      await expectEqual();
    },
  );
});

describe('a purchase', () => {
  it('is copied with the largest and the smallest amount, and with any JSON as coupons', {
    tags: ['slow'],
  }, async ({ database, worker, organizationId, add, expectEqual }) => {
    const max = 2n ** 63n - 1n;
    for (const coupons of ['{"not": "a list"}', '"text"', '[1, null]', 'null']) {
      await add(organizationId, { purchase_value_in_cents: max, coupons });
    }
    await worker.once([organizationId]);
    await expectEqual();
    await database.pool.query(
      `update purchases set purchase_value_in_cents = $2, coupons = '{"still": "none"}'
       where organization_id = $1`,
      [organizationId, -max - 1n],
    );
    await add(organizationId);
    await worker.once([organizationId]);
    await expectEqual();
  });
});
