import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import type { PurchaseListQuery } from '../../src/domain/purchase-query.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test } from '../support/fixtures.ts';
import { createTestWorker } from '../support/sync.ts';

// A page is read from a narrow time window, then from all rows. Most purchases are within one month
// of ten years, many at the same instant. The newest 9,000 of the base are superseded.

const count = 40_000;
const customers = 400n;
const sameInstant = '2020-01-01T00:00:00Z';

const added = `
  insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
  select organization_id, first + n * 7919 % ${customers}, n * 31 % 5000,
    case
      when n % 10 = 0 then timestamptz '2015-01-01Z' + n * interval '7890 s'
      when n % 3001 < 100 then '${sameInstant}'
      else timestamptz '${sameInstant}' + n * interval '67 s' end,
    case when n > ${count} - 9000 or n = 7 then 'refunded' when n % 5000 = 1 then 'voided'
      when n % 3 = 0 then 'paid' end
  from generate_series(1, ${count}) as n,
    (select organization_id, min(id) as first from customers group by 1) as shop`;
const changes = [
  'update purchases set purchase_value_in_cents = 4999 where id % 7 = 0',
  `update purchases set created_at = created_at - interval '100 days' where id % 11 = 0`,
  `update purchases set payment_status = 'paid' where id between ${count} - 9000 and ${count} - 60`,
  'delete from purchases where id % 13 = 0',
];

const it = test
  /** The lists of Postgres, and of published files: a base, and changes of half of it. */
  .extend('lists', { scope: 'file' }, async ({ database: { pool }, directory, shop, engine }) => {
    const { organizationId: id } = shop;
    await pool.query(
      'insert into customers (organization_id) select $1 from generate_series(1, $2::int)',
      [id, customers],
    );
    await pool.query(added);
    const worker = await createTestWorker(pool, directory, { maxLogRecords: 1_000_000 });
    await worker.once([id]);
    for (const change of changes) await pool.query(change);
    await worker.once([id]).finally(() => worker.close());
    const { rows } = await pool.query('select min(id) as first, max(id) as last from customers');
    const stored = createPostgresEngine(pool);
    return {
      customers: rows[0] as { first: bigint; last: bigint },
      stored: async (query: PurchaseListQuery) => (await stored.list(id, query)).result,
      listed: async (query: PurchaseListQuery) => (await engine.list(id, query)).result,
    };
  });

const micros = (text: string) => parseInstant(text, 'down') as bigint;
const instants = fc.bigInt({
  min: micros('2014-01-01T00:00:00Z'),
  max: micros('2026-01-01T00:00:00Z'),
});

describe('a page of many purchases', { tags: ['slow'], timeout: 120_000 }, () => {
  it('equals the first rows of all purchases in order', async ({ lists }) => {
    const { first, last } = lists.customers;
    const filters = fc.record(
      {
        paymentStatuses: fc.subarray(['paid', 'abandoned', 'refunded', 'voided'], { minLength: 1 }),
        customerId: fc.bigInt({ min: first, max: last }),
        minValueInCents: fc.constantFrom(0n, 4_000n, 4_999n, 6_000n),
        createdSince: instants,
        createdUntil: fc.oneof(instants, fc.constant(micros(sameInstant))),
      },
      { requiredKeys: [] },
    );
    const queries = fc.record(
      {
        filters,
        limit: fc.integer({ min: 1, max: 100 }),
        // The thirteenth ones are deleted.
        startingAfter: fc.integer({ min: 1, max: count }).map((n) => BigInt(n - (n % 13) + 1)),
      },
      { requiredKeys: ['filters', 'limit'] },
    ) as fc.Arbitrary<PurchaseListQuery>;
    await fc.assert(
      fc.asyncProperty(queries, async (query) => {
        expect(await lists.listed(query)).toEqual(await lists.stored(query));
      }),
      { numRuns: 100 },
    );
  });

  it.for([
    { filters: { paymentStatuses: ['voided'] }, limit: 3 },
    { filters: { minValueInCents: 4_990n }, limit: 100 },
    { filters: { paymentStatuses: ['refunded'], minValueInCents: 2_500n }, limit: 10 },
    { filters: { paymentStatuses: ['abandoned', 'refunded', 'voided'] }, limit: 20 },
  ] as const)(
    'continues from a cursor, whatever other lists are cached: $filters',
    async ({ filters, limit }, { lists }) => {
      const walked: bigint[] = [];
      for (let hasMore = true; hasMore; ) {
        const startingAfter = walked.at(-1);
        const page = await lists.listed({ filters, limit, startingAfter });
        walked.push(...page.purchases.map(({ id }) => id));
        hasMore = page.hasMore;
        // The engine caches lists by filters. The cached list without filters has other pages.
        const unfiltered = { filters: {}, limit, startingAfter };
        expect(await lists.listed(unfiltered)).toEqual(await lists.stored(unfiltered));
      }
      const { purchases } = await lists.stored({ filters, limit: count });
      expect(walked).toEqual(purchases.map(({ id }) => id));
      expect(walked.length).toBeGreaterThan(2 * limit);
    },
  );
});

describe('a page of purchases that follow each other by a microsecond', () => {
  // Each window begins at the instant of a purchase.
  it('has each of them once, wherever its window begins', async ({
    database: { pool },
    newShop: { organizationId: id },
    newCustomerId,
    openWorker,
    engine,
  }) => {
    await pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
       select $1, $2, n, timestamptz '${sameInstant}' + n * interval '1 microsecond',
         case when n % 20 = 0 then 'voided' end
       from generate_series(1, 500) as n`,
      [id, newCustomerId],
    );
    await (await openWorker()).once([id]);
    const stored = createPostgresEngine(pool);
    for (let last = 400n; last < 420n; last += 1n) {
      const createdUntil = micros(sameInstant) + last;
      const query = { filters: { paymentStatuses: ['voided'], createdUntil }, limit: 5 } as const;
      expect((await engine.list(id, query)).result).toEqual((await stored.list(id, query)).result);
    }
  });
});
