import { type DuckDBConnection, type DuckDBInstance, DuckDBTimestampValue } from '@duckdb/node-api';
import fc from 'fast-check';
import sql, { empty, join, type Sql } from 'sql-template-tag';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PurchaseListQuery } from '../../src/domain/purchase-query.ts';
import { createInstance, queryRows } from '../../src/duckdb/connection.ts';
import { createGeneration, type Generation } from '../../src/engines/duckdb/generation.ts';
import { listPurchases, narrowWindow } from '../../src/engines/duckdb/list.ts';
import { quarterHourSql } from '../../src/purchase-store/quarter-hours.ts';
import { attachEmptyStore } from '../support/store-files.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// A page is looked for in a narrow window of time, and then in all. Here are enough purchases
// for several row groups, and they come in bursts, late and many at the same instant: whatever
// the window was meant to hold, the page must be the one that sorting everything gives.

const count = 300_000;
const year = 365n * 86_400_000_000n;

let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let instance: DuckDBInstance;
let connection: DuckDBConnection;
let generation: Generation;

beforeAll(async () => {
  directory = await temporaryDirectory();
  const spillDirectory = directory.path;
  instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
  connection = await instance.connect();
  const catalogs = await attachEmptyStore(connection, directory.path);
  await connection.run(`
    insert into base.label_payment_status values (1, 'paid'), (2, 'voided'), (3, 'refunded');
    -- Nine in ten within one month of ten years; a hundred at the very same instant; some late.
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
    -- The base had another value, another instant, or not yet the purchase, and some that are gone.
    insert into base.purchase by name
    select * replace (
        case when id % 7 = 0 then 4999 else purchase_value_in_cents end as purchase_value_in_cents,
        case when id % 11 = 0 then created_at + interval 100 day else created_at end as created_at,
        case when id > ${count} - 12000 then 3 else payment_status_key end as payment_status_key)
    from current where id % 13 <> 0 order by created_at, id;
    insert into base.purchase by name
    select * replace (id + ${count} as id) from current where id % 17 = 0;
    create table changed as select id from current
      where id % 7 = 0 or id % 11 = 0 or id % 13 = 0 or id > ${count} - 12000;
    insert into delta.change by name
    select -1 as sign, * from base.purchase
    where id in (from changed) or id > ${count};
    insert into delta.change by name select 1 as sign, * from current where id in (from changed);
  `);
  generation = await createGeneration(connection, catalogs);
}, 60_000);

afterAll(async () => {
  connection.closeSync();
  instance.closeSync();
  await directory.remove();
});

async function idsBySorting(query: PurchaseListQuery): Promise<bigint[]> {
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

const instants = () =>
  fc.bigInt({ min: generation.summary.first - year, max: generation.summary.last + year });

const queries = () =>
  fc.record({
    filters: fc.record(
      {
        paymentStatus: fc.constantFrom('paid', 'voided', 'refunded', 'abandoned'),
        customerId: fc.bigInt({ min: 0n, max: 40_001n }),
        minValueInCents: fc.constantFrom(0n, 4_000n, 4_999n, 6_000n),
        createdSince: instants(),
        createdUntil: instants(),
      },
      { requiredKeys: [] },
    ),
    limit: fc.integer({ min: 1, max: 100 }),
    startingAfter: fc.option(fc.bigInt({ min: 1n, max: BigInt(count) }), { nil: undefined }),
  }) as fc.Arbitrary<PurchaseListQuery>;

describe('a page of many purchases', () => {
  it('is what sorting all of them gives', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(queries(), async (query) => {
        const { purchases, hasMore } = await listPurchases(connection, generation, query);
        const expected = await idsBySorting(query);
        expect(purchases.map(({ id }) => id)).toEqual(expected.slice(0, query.limit));
        expect(hasMore).toBe(expected.length > query.limit);
      }),
      { numRuns: 150 },
    );
  });
});

describe('a page after a purchase that was deleted', () => {
  it('begins at the place that the purchase had', async () => {
    const deleted = BigInt(count + 17 * 1000);
    const rows = await queryRows(
      connection,
      sql`
        select id from current
        where (created_at, id) < (select (created_at, id) from base.purchase where id = ${deleted})
        order by created_at desc, id desc limit 50`,
    );
    const query = { filters: {}, limit: 50, startingAfter: deleted };
    const { purchases } = await listPurchases(connection, generation, query);
    expect(purchases.map(({ id }) => id)).toEqual(rows.map(([id]) => id));
    expect(purchases).toHaveLength(50);
  });
});

describe('the time window', () => {
  it('holds the expected number of purchases, however few or many there are', () => {
    const extent = { purchases: 1_000_000, first: 0n, last: year };
    const expected = (year * 8n * 26n) / 1_000_000n;
    expect(year - narrowWindow(year, extent, 26)).toBeGreaterThanOrEqual(expected);
    expect(year - narrowWindow(year, extent, 26)).toBeLessThanOrEqual(expected + 2n);
    expect(narrowWindow(0n, { purchases: 0, first: 0n, last: 0n }, 26)).toBe(-1n);
  });
});
