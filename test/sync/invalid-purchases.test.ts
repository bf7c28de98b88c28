import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import type { OrganizationReport } from '../../sync/organization-report.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addPurchase, type PurchaseValues } from '../support/shop.ts';

const it = test
  /** Adds purchases that the checks of Postgres would reject. */
  .extend('buy', { scope: 'file' }, async ({ database: { pool } }) => {
    await pool.query(`
      alter domain instant drop constraint instant_check;
      alter table purchases drop constraint purchases_coupons_check`);
    return async (organizationId: bigint, values: Omit<PurchaseValues, 'customer_id'> = {}) => {
      const customer = await addCustomer(pool, organizationId);
      await addPurchase(pool, organizationId, { customer_id: customer, ...values });
    };
  })
  .extend('organizationId', async ({ newShop: { organizationId }, buy }) => {
    await buy(organizationId);
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

/** Faults of a purchase of the order SECRET-7, and their corrections. */
const faults = {
  'a value': {
    message: 'A purchase holds a value that cannot be copied.',
    advice: /Correct rows that violate a constraint/,
    values: { created_at: 'infinity' },
    damage: null,
    correction: `update purchases set created_at = now() where order_number = 'SECRET-7'`,
    remaining: 2,
  },
  'a damaged page': {
    message: expect.stringMatching(/^Postgres cannot read its files: missing chunk number 0 for/),
    advice: /Repair or delete the damaged rows/,
    values: { coupons: JSON.stringify([{ code: randomBytes(10_000).toString('hex') }]) },
    damage: damageCoupons,
    correction: `delete from purchases where order_number = 'SECRET-7'`,
    remaining: 1,
  },
};

/** Removes the stored content of all coupons that are too long for the row itself. */
async function damageCoupons(pool: Database): Promise<void> {
  const { rows } = await pool.query<{ toast: string }>(
    `select reltoastrelid::regclass as toast from pg_class where oid = 'purchases'::regclass`,
  );
  const toast = rows[0]?.toast;
  await pool.query('create extension if not exists pg_surgery');
  await pool.query(`select heap_force_kill($1::regclass, (select array_agg(ctid) from ${toast}))`, [
    toast,
  ]);
}

describe('a purchase that cannot be copied', () => {
  it.for([
    ['a value', 'a load'],
    ['a value', 'a change'],
    ['a damaged page', 'a load'],
    ['a damaged page', 'a change'],
  ] as const)(
    'is reported without its content, and delays only its organization: %s, in %s',
    { tags: ['slow'] },
    async (
      [fault, place],
      {
        database,
        organizationId,
        otherShop: { organizationId: other },
        buy,
        engine,
        followChanges,
        untilReported,
        untilPublished,
        expectEqual,
      },
    ) => {
      const { message, advice, values, damage, correction, remaining } = faults[fault];
      const addInvalid = async () => {
        await buy(organizationId, { ...values, order_number: 'SECRET-7' });
        await damage?.(database.pool);
      };
      if (place === 'a load') await addInvalid();
      followChanges();
      if (place === 'a change') {
        await untilPublished(1);
        await addInvalid();
      }
      const hasFailed = (report?: OrganizationReport) => report?.failure != null;
      const failure = (await untilReported(organizationId, hasFailed))?.failure;
      expect(failure?.message).toEqual(message);
      expect(failure?.advice).toMatch(advice);
      expect(JSON.stringify(failure)).not.toMatch(/SECRET|infinity/);
      const count = async (id: bigint) => {
        const query = { filters: {}, groupLimit: 1 };
        return Number((await readPurchaseStats(engine, id, query)).result.purchaseCount);
      };
      if (place === 'a change') expect(await count(organizationId)).toBe(1);
      else await expect(count(organizationId)).rejects.toThrow(NoGenerationError);

      const before = await count(other).catch(() => 0);
      await buy(other);
      await untilPublished(before + 1, other);

      await database.pool.query(correction);
      await untilReported(organizationId, (report) => report?.failure == null);
      await untilPublished(remaining);
      await expectEqual();
    },
  );
});

describe('a purchase', () => {
  it('is copied with the largest and the smallest amount, and with any JSON as coupons', {
    tags: ['slow'],
  }, async ({ database, worker, organizationId, buy, expectEqual }) => {
    const max = 2n ** 63n - 1n;
    for (const coupons of ['{"not": "a list"}', '"text"', '[1, null]', 'null']) {
      await buy(organizationId, { purchase_value_in_cents: max, coupons });
    }
    await worker.once([organizationId]);
    await expectEqual();
    await database.pool.query(
      `update purchases set purchase_value_in_cents = $2, coupons = '{"still": "none"}'
       where organization_id = $1`,
      [organizationId, -max - 1n],
    );
    await buy(organizationId);
    await worker.once([organizationId]);
    await expectEqual();
  });
});
