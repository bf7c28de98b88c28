import { expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { test as it } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';

/** Each customer has three purchases: paid in January, pending in February, paid in March. */
const purchases = `
  insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
  select $1, id, 100 + month, make_timestamptz(2025, month, 10, 12, 0, id % 60, 'UTC'),
    case month when 2 then 'pending' else 'paid' end
  from customers, generate_series(1, 3) as month
  where organization_id = $1 order by month, id`;

const ofCustomer = `organization_id = $1
  and customer_id = (select id from customers where organization_id = $1 order by id limit 1 offset $2)`;
const inMonth = (month: number) =>
  `${ofCustomer} and created_at >= '2025-0${month}-01Z' and created_at < '2025-0${month + 1}-01Z'`;
const add = (createdAt: string) => `
  insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at, payment_status)
  select organization_id, customer_id, 1000, ${createdAt}, 'paid' from purchases where ${inMonth(1)}`;

/** Changes of the first purchases of a base, each of one customer. */
const changes = {
  'an earlier one is added': add(`timestamptz '2024-12-05Z'`),
  'one at the same instant is added': add('created_at'),
  'a later one is added': add(`timestamptz '2025-05-05Z'`),
  'the first one is deleted': `delete from purchases where ${inMonth(1)}`,
  'the first one is refunded': `update purchases set payment_status = 'refunded' where ${inMonth(1)}`,
  'the first one is changed': `update purchases set purchase_value_in_cents = 7 where ${inMonth(1)}`,
  'the first one is made the last': `update purchases set created_at = '2025-04-04Z' where ${inMonth(1)}`,
  'the second one is paid': `update purchases set payment_status = 'paid' where ${inMonth(2)}`,
  'the last one is made the first': `update purchases set created_at = '2024-11-11Z' where ${inMonth(3)}`,
  'all are made later': `update purchases set created_at = created_at + interval '1 year' where ${ofCustomer}`,
  'one is deleted': `
    with deleted as (delete from purchases where ${inMonth(1)} returning *) insert into gone select * from deleted`,
  'it comes back': `insert into purchases overriding system value select * from gone where organization_id = $1 and $2 > 0`,
  'all are deleted': `delete from purchases where ${ofCustomer}`,
  'the first one becomes that of another customer': `
    update purchases set customer_id = customer_id + 1 where ${inMonth(1)}`,
};

const ofFirsts = [
  'revenue_in_cents',
  'customer_count',
  'new_customer_count',
  'returning_customer_count',
  'median_value_in_cents',
] as const;

it('changes of first purchases change what reports and cohorts count', async ({
  database: { pool },
  directory,
  organizationId,
  engine,
  openWorker,
}) => {
  const worker = await openWorker({ maxPurchasesWithoutBase: 0 });
  const count = 2 * Object.keys(changes).length + 2;
  await pool.query(
    'insert into customers (organization_id) select $1 from generate_series(1, $2)',
    [organizationId, count],
  );
  await pool.query(purchases, [organizationId]);
  await pool.query('create table gone (like purchases)');
  const publish = async () => {
    await worker.once([organizationId]);
    await untilShown(engine, directory, organizationId);
  };
  await publish();
  const postgres = createPostgresEngine(pool);
  const expectSame = async (ask: (engine: PurchaseEngine) => Promise<{ result: unknown }>) => {
    const [ofFiles, ofPostgres] = await Promise.all([engine, postgres].map(ask));
    expect(ofFiles?.result).toEqual(ofPostgres?.result);
  };
  const expectEqual = async () => {
    for (const paymentStatuses of [undefined, ['paid'], ['pending'], ['refunded']] as const) {
      const filters = { paymentStatuses };
      for (const query of [
        { groupBy: ['customer_type'], measures: ofFirsts },
        { groupBy: ['month', 'customer_type'], measures: ofFirsts },
        { groupBy: ['month'], measures: ofFirsts },
        { groupBy: ['currency'], measures: ['purchase_count', 'revenue_in_cents'] },
      ] as const) {
        const report = { filters, ...query, orderBy: null, limit: 100 };
        await expectSame((each) => each.report(organizationId, report));
      }
      const cohorts = { filters, interval: 'month', periods: 6 } as const;
      await expectSame((each) => each.cohorts(organizationId, cohorts));
    }
    // Purchases match by the value that they had, or by the present one.
    for (const filters of [{ minValueInCents: 102n }, { maxValueInCents: 101n }]) {
      for (const groupBy of [[], ['customer']] as const) {
        const measures = ['revenue_in_cents', 'customer_count'] as const;
        const report = { filters, groupBy, measures, orderBy: null, limit: 100 };
        await expectSame((each) => each.report(organizationId, report));
      }
    }
  };
  await expectEqual();
  for (const [index, [name, change]] of Object.entries(changes).entries()) {
    // Each is of another customer. One is between them, to whom a purchase may move.
    const { rowCount } = await pool.query(change, [organizationId, 2 * index]);
    expect(rowCount, name).toBeGreaterThan(0);
    if (name !== 'one is deleted') continue;
    await publish();
    await expectEqual();
  }
  await publish();
  await expectEqual();
});
