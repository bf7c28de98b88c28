import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import fc from 'fast-check';
import sql, { empty, join, type Sql } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import type { PurchaseListQuery } from '../../src/domain/purchase-query.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { listPurchases } from '../../src/engines/duckdb/list/list.ts';
import { narrowWindow } from '../../src/engines/duckdb/list/page.ts';
import { createGeneration, type Generation } from '../../src/engines/duckdb/serving/generation.ts';
import { previousQuarterNames } from '../../src/purchase-store/format/previous-purchases.ts';
import { quarterHourSql } from '../../src/purchase-store/format/quarter-hours.ts';
import { test } from '../support/fixtures.ts';
import { attachEmptyStore } from '../support/store-files.ts';

// A page is read from a narrow time window, then from all rows. The purchases fill several row
// groups: most within one month, many at the same instant, some long before and after.

const count = 300_000;
const year = 365n * 86_400_000_000n;

const it = test
  .extend('connection', { scope: 'file' }, async ({ directory: spillDirectory }, { onCleanup }) => {
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    const connection = await instance.connect();
    onCleanup(() => {
      connection.closeSync();
      instance.closeSync();
    });
    return connection;
  })
  .extend('generation', { scope: 'file' }, async ({ connection }) => {
    const catalogs = await attachEmptyStore(connection);
    await writePurchases(connection);
    return createGeneration(connection, catalogs);
  });

async function writePurchases(connection: DuckDBConnection): Promise<void> {
  await connection.run(`
    insert into base.label_payment_status values (1, 'paid'), (2, 'voided'), (3, 'refunded');
    -- Nine in ten within one month of ten years, a hundred at the same instant, some later.
    create table current as
    select n as id, n * 7919 % 40000 as customer_id, n * 7919 % 40000 as customer_key,
      n * 31 % 5000 as purchase_value_in_cents,
      make_timestamp(1420070400000000 + case
        when n % 10 = 0 then n * 1000000 * 1052
        when n % 3001 < 100 then 157680000000000
        else 157680000000000 + n * 9000000 end) as created_at,
      ${quarterHourSql('epoch_us(created_at)')} as created_quarter_hour,
      make_timestamp(1800000000000000) as updated_at,
      case when n % 5000 = 1 then 2 when n > ${count} - 60 or n = 7 then 3 when n % 3 = 0 then 1 else 0 end
        as payment_status_key
    from range(1, ${count + 1}) as numbers(n);
    -- The base differs in values and instants, lacks purchases, and has some that are deleted.
    insert into base.purchase by name
    select ${noPrevious}, * replace (
        case when id % 7 = 0 then 4999 else purchase_value_in_cents end as purchase_value_in_cents,
        case when id % 11 = 0 then created_at + interval 100 day else created_at end as created_at,
        case when id > ${count} - 12000 then 3 else payment_status_key end as payment_status_key)
    from current where id % 13 <> 0 order by created_at, id;
    insert into base.purchase by name
    select ${noPrevious}, * replace (id + ${count} as id) from current where id % 17 = 0;
    create table changed as select id from current
      where id % 7 = 0 or id % 11 = 0 or id % 13 = 0 or id > ${count} - 12000;
    insert into delta.change by name
    select -1 as sign, * exclude (${previousQuarterNames}) from base.purchase
    where id in (from changed) or id > ${count};
    insert into delta.change by name select 1 as sign, * from current where id in (from changed);
  `);
}

/** Lists read no previous purchases. */
const noPrevious = '0 as previous_quarter_hour, 0 as previous_of_status_quarter_hour';

async function idsBySorting(
  connection: DuckDBConnection,
  query: PurchaseListQuery,
): Promise<bigint[]> {
  const { filters, limit, startingAfter } = query;
  const conditions: Sql[] = [
    filters.paymentStatus === undefined
      ? sql`true`
      : sql`payment_status_key = ${['', 'paid', 'voided', 'refunded'].indexOf(filters.paymentStatus)}::integer`,
    filters.customerId === undefined ? sql`true` : sql`customer_id = ${filters.customerId}`,
    filters.minValueInCents === undefined
      ? sql`true`
      : sql`purchase_value_in_cents >= ${filters.minValueInCents}`,
    filters.createdSince === undefined
      ? sql`true`
      : sql`created_at >= ${new DuckDBTimestampValue(filters.createdSince)}`,
    filters.createdUntil === undefined
      ? sql`true`
      : sql`created_at <= ${new DuckDBTimestampValue(filters.createdUntil)}`,
  ];
  const after =
    startingAfter === undefined
      ? empty
      : sql`where (created_at, id) < (select (created_at, id) from current where id = ${startingAfter})`;
  const rows = await queryRows(
    connection,
    sql`
      select id from (select * from current where ${join(conditions, ' and ')}) as matching
      ${after} order by created_at desc, id desc limit ${BigInt(limit + 1)}`,
  );
  return rows.map(([id]) => id as bigint);
}

const instants = (generation: Generation) =>
  fc.bigInt({ min: generation.summary.first - year, max: generation.summary.last + year });

const queries = (generation: Generation) =>
  fc.record({
    filters: fc.record(
      {
        paymentStatus: fc.constantFrom('paid', 'voided', 'refunded', 'abandoned'),
        customerId: fc.bigInt({ min: 0n, max: 40_001n }),
        minValueInCents: fc.constantFrom(0n, 4_000n, 4_999n, 6_000n),
        createdSince: instants(generation),
        createdUntil: instants(generation),
      },
      { requiredKeys: [] },
    ),
    limit: fc.integer({ min: 1, max: 100 }),
    startingAfter: fc.option(fc.bigInt({ min: 1n, max: BigInt(count) }), { nil: undefined }),
  }) as fc.Arbitrary<PurchaseListQuery>;

describe('a page of many purchases', { tags: ['slow'] }, () => {
  it('equals the first rows of all purchases in order', {
    timeout: 120_000,
  }, async ({ connection, generation }) => {
    await fc.assert(
      fc.asyncProperty(queries(generation), async (query) => {
        const { purchases, hasMore } = await listPurchases(connection, generation, query);
        const expected = await idsBySorting(connection, query);
        expect(purchases.map(({ id }) => id)).toEqual(expected.slice(0, query.limit));
        expect(hasMore).toBe(expected.length > query.limit);
      }),
      { numRuns: 150 },
    );
  });
});

describe('a walk through pages', { tags: ['slow'] }, () => {
  const walks = [
    { filters: { paymentStatus: 'voided' }, limit: 7 },
    { filters: { minValueInCents: 4_990n }, limit: 100 },
    { filters: { paymentStatus: 'refunded', minValueInCents: 4_000n }, limit: 10 },
  ] as const;
  it.for(walks)(
    'has every purchase once, whatever the time span of its pages: $filters',
    async ({ filters, limit }, { connection, generation }) => {
      const walked: bigint[] = [];
      for (let more = true; more; ) {
        const startingAfter = walked.at(-1);
        const page = await listPurchases(connection, generation, { filters, limit, startingAfter });
        walked.push(...page.purchases.map(({ id }) => id));
        more = page.hasMore;
        // The cursor is cached with the time span of a page of other purchases.
        const query = { filters: {}, limit, startingAfter };
        const { purchases } = await listPurchases(connection, generation, query);
        const expected = await idsBySorting(connection, query);
        expect(purchases.map(({ id }) => id)).toEqual(expected.slice(0, limit));
      }
      const expected = await idsBySorting(connection, {
        filters,
        limit: count,
        startingAfter: undefined,
      });
      expect(walked).toEqual(expected);
      expect(walked.length).toBeGreaterThan(2 * limit);
    },
  );
});

describe('a page whose time window begins at the instant of purchases', () => {
  it('has each of them once', async ({ connection, generation }) => {
    const instant = 1_577_750_400_000_000n;
    const limit = 100;
    const width = -narrowWindow(0n, generation.summary, limit + 1);
    const query = {
      filters: { paymentStatus: 'voided', createdUntil: instant + width },
      limit,
    } as const;
    const { purchases } = await listPurchases(connection, generation, query);
    expect(purchases.filter(({ created_at }) => created_at === instant)).not.toHaveLength(0);
    expect(purchases.map(({ id }) => id)).toEqual(await idsBySorting(connection, query));
  });
});

describe('the time window', () => {
  it('has the time that the given number of purchases takes on average', () => {
    const extent = { purchases: 1_000_000, first: 0n, last: year, isEmpty: false };
    const expected = (year * 8n * 26n) / 1_000_000n;
    expect(year - narrowWindow(year, extent, 26)).toBeGreaterThanOrEqual(expected);
    expect(year - narrowWindow(year, extent, 26)).toBeLessThanOrEqual(expected + 2n);
    expect(narrowWindow(0n, { purchases: 0, first: 0n, last: 0n, isEmpty: true }, 26)).toBe(-1n);
  });
});
