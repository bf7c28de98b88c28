import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { parseInstant } from '../../src/domain/instant.ts';
import { intervals, TooManyPeriodsError } from '../../src/domain/period.ts';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { PurchaseTimeSeriesQuery } from '../../src/domain/purchase-query.ts';
import { cohortIntervals, type PurchaseCohortsQuery } from '../../src/domain/purchase-report.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as it } from '../support/fixtures.ts';
import type { TestDatabase } from '../support/postgres.ts';
import { expectEqual, untilShown } from '../support/published.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { hasClickHouse, openEngines } from './store.ts';

const asText = (answer: unknown): string =>
  JSON.stringify(answer, (_key, value) => (typeof value === 'bigint' ? `${value}n` : value));

type Shop = { readonly purchases: number; readonly instant: string };

const after = (instant: string, eighths: string) =>
  `timestamptz '${instant}' + floor(${eighths}) * interval '7.5 minutes'`;

/**
 * Most purchases are in the first days. Four tenths are near 2 o'clock at Casey, when its clocks went back to
 * 23:00 of the day before.
 */
const overMonths: Shop = {
  purchases: 300,
  instant: `case when random() < 0.4 then ${after('2010-03-04 13:00Z', 'random() * 32')}
    else ${after('2010-01-01 00:00Z', 'power(random(), 3) * 60000')} end`,
};
/** So many that tables have their periods. The clocks of Lord Howe went back by half an hour meanwhile. */
const withinHours: Shop = {
  purchases: 1_500,
  instant: after('2010-04-03 11:00Z', 'random() * 64'),
};

/** So many that tables have their weeks, which begin meanwhile. */
const aroundMonday: Shop = {
  purchases: 1_500,
  instant: after('2010-04-04 20:00Z', 'random() * 64'),
};

const status = `(array['paid', 'paid', 'paid', 'refunded', 'shipped', 'other', null])[1 + floor(random() * 7)]`;

/** What breaks the order of a customer's purchases. */
const breaks = ({ instant }: Shop) => ({
  'nothing changes': 'select',
  'the first purchases are deleted': `delete from purchases where id in (
    select min(id) from purchases where organization_id = (select organization from shop) group by customer_id, payment_status)`,
  'purchases are deleted': `delete from purchases where organization_id = (select organization from shop) and random() < 0.1`,
  'purchases get other dates': `update purchases set created_at = ${instant}
    where organization_id = (select organization from shop) and random() < 0.1`,
  'purchases get other states': `update purchases set payment_status = ${status}
    where organization_id = (select organization from shop) and random() < 0.1`,
  'purchases get other customers': `update purchases set customer_id = ((select customers from shop))[1 + floor(random() * 8)]
    where organization_id = (select organization from shop) and random() < 0.1`,
  'purchases get other values': `update purchases set purchase_value_in_cents = 7
    where organization_id = (select organization from shop) and random() < 0.2`,
  'all purchases of a period are deleted': `delete from purchases
    where organization_id = (select organization from shop) and created_at between '2010-01-03 00:00Z' and '2010-01-03 23:59:59Z'`,
  'a customer has no purchase left': `delete from purchases where customer_id = ((select customers from shop))[1]`,
});

const added = ({ instant }: Shop, count: number) => `insert into purchases
    (organization_id, customer_id, created_at, payment_status, purchase_value_in_cents)
  select organization, customers[1 + floor(random() * random() * 8)], ${instant}, ${status}, n
  from shop, generate_series(1, ${count}) as n`;

/** Without a time zone, it is UTC. */
const zones = [undefined, 'Antarctica/Casey', 'Australia/Lord_Howe', 'Asia/Kathmandu'] as const;

const bound = fc
  .tuple(
    fc.constantFrom(
      '2009-12-31T00:00:00Z',
      '2010-01-02T00:00:00Z',
      '2010-03-04T13:00:00Z',
      '2010-04-03T12:00:00Z',
    ),
    fc.integer({ min: 0, max: 16 }),
    fc.constantFrom(0n, 0n, 450_000_000n, 450_000_001n),
  )
  .map(
    ([text, quarters, shift]) =>
      (parseInstant(text, 'down') as bigint) + BigInt(quarters) * 900_000_000n + shift,
  );
const filters = fc.record(
  {
    createdSince: bound,
    createdUntil: bound,
    paymentStatuses: fc.constantFrom(
      ['paid'] as const,
      ['refunded'] as const,
      ['paid', 'refunded'] as const,
    ),
    minValueInCents: fc.constant(100n),
  },
  { requiredKeys: [] },
);
/** Queries of one calendar. */
const queries: fc.Arbitrary<PurchaseTimeSeriesQuery[]> = fc
  .tuple(
    fc.array(filters, { minLength: 3, maxLength: 3 }),
    fc.constantFrom(...intervals),
    fc.constantFrom(...zones),
  )
  .map(([several, interval, timeZone]) =>
    several.map((filters) => ({ filters, interval, timeZone, groupLimit: 5 })),
  );

const numRuns = Number(process.env.RANDOM_QUERIES ?? (hasClickHouse ? 4 : 15));

type Fixtures = { readonly database: TestDatabase; readonly directory: string };

/** Makes these changes one after the other. */
async function check(
  { database, directory }: Fixtures,
  shop: Shop,
  changes: Readonly<Record<string, string>>,
): Promise<void> {
  const organization = await addOrganization(database.pool);
  const customers: bigint[] = [];
  while (customers.length < 8) customers.push(await addCustomer(database.pool, organization));
  const connection = await database.pool.connect();
  const run = (statement: string) => connection.query(statement);
  await run('select setseed(0.5)');
  await connection.query('create temp table shop (organization bigint, customers bigint[])');
  await connection.query('insert into shop values ($1, $2)', [organization, customers]);
  const postgres = createPostgresEngine(database.pool);
  const stores = await openEngines(database.pool, directory);
  const files = join(directory, 'duckdb');

  const sync = async (options = {}) => {
    for (const { engine, createWorker } of stores) {
      const worker = await createWorker({
        maxPurchasesWithoutBase: 0,
        loadChunkRows: shop.purchases / 6,
        ...options,
      });
      await worker.once([organization]).finally(() => worker.close());
      await untilShown(engine, files, organization);
    }
  };
  const answersOf = async (of: PurchaseEngine, query: PurchaseTimeSeriesQuery) => {
    const { filters, groupLimit } = query;
    const stats = await of.stats(organization, { filters, groupLimit });
    const series = await of.timeSeries(organization, query).then(
      ({ result }) => result,
      (error) => {
        if (error instanceof TooManyPeriodsError) return `too many: ${error.message}`;
        throw error;
      },
    );
    const { interval, timeZone } = query;
    const cohorts = await of.cohorts(organization, {
      filters,
      interval: isCohortInterval(interval) ? interval : 'week',
      timeZone,
      periods: 12,
    });
    return asText([stats.result, series, cohorts.result]);
  };
  // At once: queries of one calendar share the table of its periods, which grows.
  const compare = (name: string) =>
    fc.assert(
      fc.asyncProperty(queries, async (some) => {
        const of = (engine: PurchaseEngine) =>
          Promise.all(some.map((query) => answersOf(engine, query)));
        const exact = await of(postgres);
        for (const { engine } of stores) {
          expect(await of(engine), `${name}: ${asText(some)}`).toEqual(exact);
        }
      }),
      { numRuns: Math.ceil(numRuns / 2) },
    );

  try {
    await run(added(shop, shop.purchases));
    await sync();
    for (const [name, statement] of Object.entries(changes)) {
      await run(statement);
      await run(added(shop, 3));
      await sync();
      await compare(name);
    }
    await sync({ maxLogRecords: 0 });
    await compare('after a compaction');
    await expectEqual(database.pool, files, organization);
  } finally {
    connection.release(true);
    for (const { close } of stores) await close();
  }
}

const isCohortInterval = (interval: string): interval is CohortInterval =>
  (cohortIntervals as readonly string[]).includes(interval);
type CohortInterval = PurchaseCohortsQuery['interval'];

describe('distinct customers are those of Postgres, in statistics, in each period and in cohorts', () => {
  const slow = { tags: ['slow'], timeout: 240_000 };

  it('however purchases of months change', slow, ({ database, directory }) =>
    check({ database, directory }, overMonths, breaks(overMonths)),
  );

  it('however many purchases of a few hours change', slow, ({ database, directory }) =>
    check({ database, directory }, withinHours, breaks(withinHours)),
  );

  it('after all these changes of many purchases of a few hours', ({ database, directory }) => {
    const statements = Object.values(breaks(withinHours)).join(';');
    return check({ database, directory }, withinHours, { 'all at once': statements });
  });

  it('after all these changes of many purchases around the beginning of a week', ({
    database,
    directory,
  }) => {
    const statements = Object.values(breaks(aroundMonday)).join(';');
    return check({ database, directory }, aroundMonday, { 'all at once': statements });
  });
});
