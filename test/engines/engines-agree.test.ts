import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { earliestInstant, latestInstant, parseInstant } from '../../src/domain/instant.ts';
import { paymentStatuses, platforms, trackingLabels } from '../../src/domain/purchase.ts';
import { type PurchaseEngine, UnknownCursorError } from '../../src/domain/purchase-engine.ts';
import {
  type PurchaseListQuery,
  type PurchaseStatsQuery,
  statsDimensions,
} from '../../src/domain/purchase-query.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import {
  awkwardAmounts,
  awkwardInstants,
  awkwardLabels,
  awkwardPurchase,
} from '../support/awkward-purchases.ts';
import { test as it } from '../support/fixtures.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';

/** Byte for byte: bigints as digits, nulls as nulls, the order of everything kept. */
const asText = (answer: unknown): string =>
  JSON.stringify(answer, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value));

describe('the DuckDB engine and the Postgres engine', () => {
  let postgres: PurchaseEngine;
  let organization: bigint;
  let customers: bigint[];
  let ids: bigint[];

  it.beforeAll(async ({ database, worker }) => {
    organization = await addOrganization(database.pool);
    const other = await addOrganization(database.pool);
    customers = [];
    for (let count = 0; count < 12; count += 1) {
      customers.push(await addCustomer(database.pool, organization));
    }
    const shop = awkwardPurchase(customers);
    ids = [];
    for (const values of fc.sample(shop, { numRuns: 300, seed: 7 })) {
      ids.push(await addPurchase(database.pool, organization, values));
    }
    const foreign = awkwardPurchase([await addCustomer(database.pool, other)]);
    for (const values of fc.sample(foreign, { numRuns: 50, seed: 8 })) {
      await addPurchase(database.pool, other, values);
    }
    await worker.syncAll();
    // Half of them once more, through the road that updates take.
    for (const values of fc.sample(shop, { numRuns: 150, seed: 9 })) {
      ids.push(await addPurchase(database.pool, organization, values));
    }
    await database.pool.query(
      `update purchases set utm_source = 'summer', payment_status = null,
         purchase_value_in_cents = purchase_value_in_cents / 2 where id % 5 = 0`,
    );
    await database.pool.query('delete from purchases where id % 11 = 0');
    await worker.syncAll();
    postgres = createPostgresEngine(database.pool);
  });

  const label = fc.constantFrom<string>(...awkwardLabels, 'in no purchase');
  const amount = fc.constantFrom(...awkwardAmounts.filter((cents) => cents >= 0n));
  const instant = fc
    .tuple(fc.constantFrom(...awkwardInstants), fc.constantFrom(-1n, 0n, 1n))
    .map(([text, shift]) => (parseInstant(text, 'down') as bigint) + shift)
    .filter((micros) => micros >= earliestInstant && micros <= latestInstant);
  const filters = () =>
    fc.record(
      {
        customerId: fc.constantFrom(...customers, 10n ** 15n),
        paymentStatus: fc.constantFrom(...paymentStatuses),
        platform: fc.constantFrom(...platforms),
        createdSince: instant,
        createdUntil: instant,
        minValueInCents: amount,
        maxValueInCents: amount,
        ...(Object.fromEntries(trackingLabels.map((name) => [name, label])) as Record<
          (typeof trackingLabels)[number],
          typeof label
        >),
      },
      { requiredKeys: [] },
    );

  it('give the same statistics to any question', async ({ engine }) => {
    const question: fc.Arbitrary<PurchaseStatsQuery> = fc.record(
      {
        filters: filters(),
        groupBy: fc.constantFrom(...statsDimensions),
        groupLimit: fc.integer({ min: 1, max: 50 }),
      },
      { requiredKeys: ['filters', 'groupLimit'] },
    );
    await fc.assert(
      fc.asyncProperty(question, async (query) => {
        const [fast, exact] = await Promise.all([
          engine.stats(organization, query),
          postgres.stats(organization, query),
        ]);
        expect(asText(fast.result)).toBe(asText(exact.result));
      }),
      { numRuns: 200 },
    );
  });

  it('give the same page to any question, from any cursor', async ({ engine }) => {
    const question: fc.Arbitrary<PurchaseListQuery> = fc.record(
      {
        filters: filters(),
        limit: fc.integer({ min: 1, max: 100 }),
        // Deleted purchases are among them, and one that never was.
        startingAfter: fc.constantFrom(...ids, 10n ** 15n),
      },
      { requiredKeys: ['filters', 'limit'] },
    );
    const pageOf = async (of: PurchaseEngine, query: PurchaseListQuery) =>
      of.list(organization, query).then(
        ({ result }) => asText(result),
        (error) => {
          if (error instanceof UnknownCursorError) return 'unknown cursor';
          throw error;
        },
      );
    await fc.assert(
      fc.asyncProperty(question, async (query) => {
        expect(await pageOf(engine, query)).toBe(await pageOf(postgres, query));
      }),
      { numRuns: 200 },
    );
  });

  it('find the same purchase under every number', async ({ engine }) => {
    for (const id of ids) {
      const [fast, exact] = await Promise.all([
        engine.get(organization, id),
        postgres.get(organization, id),
      ]);
      expect(asText(fast.result)).toBe(asText(exact.result));
    }
  });
});
