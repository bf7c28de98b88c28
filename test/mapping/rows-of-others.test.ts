import { expect, onTestFinished } from 'vitest';
import { documentedFile } from '../support/documented-database.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { it, tables } from './small-shop.ts';

// A mapping writes only rows whose number it has drawn. In all tests, organization 1 is mapped, and
// organization 2 written directly.

const purchases = `select p.id, p.organization_id as org, purchase_value_in_cents as cents, name
  from purchases as p join customers on customers.id = customer_id order by p.id`;
const rowsOf = (organization: number, table: 'customers' | 'purchases') =>
  `select * from ${table} where organization_id = ${organization} order by id`;
const next = (table: string, column = 'last_value') =>
  `(select ${column} + 1 from ${table}_id_seq)`;

it('leaves an organization that is written by the documented upserts as it is', async ({
  start,
  query,
  apply,
  map,
}) => {
  onTestFinished(async () => void (await query('drop table customer_numbers, purchase_numbers')));
  await query((await documentedFile('upsert-tables.sql')).replace(/^grant .*$/gm, ''));
  await start(`insert into store.clients (id, name) values ('c-81f3', 'Ana');
    insert into store.orders (id, client_id) values (1, 'c-81f3')`);
  await query(`update organizations set name = 'My shop' where id = 2`);
  const upserts = await documentedFile('upserts.sql');
  await query(upserts);
  const others = async () => [
    await query(rowsOf(2, 'customers')),
    await query(rowsOf(2, 'purchases')),
    await query('select * from customer_numbers order by id'),
    await query('select * from purchase_numbers order by id'),
  ];
  const before = await others();
  expect(before.map(({ length }) => length)).toEqual([2, 2, 2, 2]);
  await apply();
  await query(`delete from store.orders; delete from store.clients`);
  await map();
  await query(upserts);
  expect(await others()).toEqual(before);
  expect(await query(rowsOf(1, 'purchases'))).toEqual([]);
});

it('draws another number if a row has the drawn one', async ({ start, query, map }) => {
  await start();
  await query(`
    insert into customers (id, organization_id, name)
    select ${next('customers')} + n, 2, 'Other' from generate_series(0, 2500) as n;
    insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
    select ${next('purchases')} + 2 * n, 2, (select max(id) from customers), n from generate_series(0, 2500) as n`);
  const others = async () => [
    await query(rowsOf(2, 'customers')),
    await query(rowsOf(2, 'purchases')),
  ];
  const before = await others();
  // Orders 1 and 2 are of the guest.
  await query(`insert into store.clients (id, name) values ('a', 'Ana');
    insert into store.orders (id, client_id) select n, case when n > 2 then 'a' end from generate_series(1, 30) as n`);
  await map();
  await query(`update store.orders set cents = 5; delete from store.orders where id = 30`);
  await map();
  expect(
    await query(`select count(*)::int as rows, count(distinct customer_id)::int as customers
    from purchases where organization_id = 1 and purchase_value_in_cents = 5`),
  ).toEqual([{ rows: 29, customers: 2 }]);
  expect(await query('select * from mapping_failures')).toEqual([]);
  expect(await others()).toEqual(before);
});

it('draws another number if a transaction uses the drawn one, and commits meanwhile', async ({
  start,
  query,
  map,
  database,
}) => {
  await start();
  const customerId = await addCustomer(database.pool, 2n);
  const [{ id }] = await query(`select ${next('purchases')} as id`);
  await query('insert into store.orders (id) values (1), (2)');
  const writer = await database.pool.connect();
  await writer.query('begin');
  await addPurchase(writer, 2n, { id, customer_id: customerId, purchase_value_in_cents: 7 });
  const mapped = map();
  await expect
    .poll(async () =>
      query(`select from pg_locks where not granted and locktype = 'transactionid'`),
    )
    .toHaveLength(1);
  await writer.query('commit');
  writer.release();
  await mapped;
  expect(
    await query(`select organization_id as org, purchase_value_in_cents as cents
    from purchases order by 1, id`),
  ).toEqual([
    { org: 1n, cents: 100n },
    { org: 1n, cents: 100n },
    { org: 2n, cents: 7n },
  ]);
});

it.for([1, 2])(
  'gives a row that returns another number if organization %i uses the former one',
  async (organization, { start, query, map, database }) => {
    await start(`insert into store.orders (id) values (1), (2), (3)`);
    const mapped = async () => {
      await map();
      return query(
        `select external_id as key, id from mapped_purchase_numbers where is_stored order by 1`,
      );
    };
    const [one, two, three] = await mapped();
    await query('delete from store.orders where id <= 2');
    await mapped();
    const customerId = await addCustomer(database.pool, BigInt(organization));
    await addPurchase(database.pool, BigInt(organization), {
      ...{ id: one.id, customer_id: customerId, purchase_value_in_cents: 7 },
    });
    await query('insert into store.orders (id) values (1), (2)');
    const [other, ...rest] = await mapped();
    expect(other.id).toBeGreaterThan(three.id);
    expect(rest).toEqual([two, three]);
    await query(`update store.orders set cents = 9; delete from store.orders where id = 1`);
    await mapped();
    expect(await query(purchases)).toEqual(
      [
        { id: one.id, org: BigInt(organization), cents: 7n, name: null },
        { id: two.id, org: 1n, cents: 9n, name: null },
        { id: three.id, org: 1n, cents: 9n, name: null },
      ].toSorted((a, b) => Number(a.id - b.id)),
    );
  },
);

it('writes no row of another organization under a number of its own', async ({
  start,
  query,
  map,
}) => {
  await start(`insert into store.orders (id) values (1), (2)`);
  // A row that another writer has moved, or deleted and written again.
  await query(`with other as (insert into customers (organization_id) values (2) returning id)
    update purchases set organization_id = 2, customer_id = other.id from other
    where purchases.id = (select id from mapped_purchase_numbers where external_id = 1)`);
  const before = await query(rowsOf(2, 'purchases'));
  await query('update store.orders set cents = 9');
  await map();
  expect(await query(rowsOf(2, 'purchases'))).toEqual(before);
  await query('delete from store.orders');
  await map();
  expect(await query(rowsOf(2, 'purchases'))).toEqual(before);
  expect(await query(rowsOf(1, 'purchases'))).toEqual([]);
});

it('has the same external id in two organizations as two rows', async ({ start, query, map }) => {
  const twice =
    'select * from store.orders union all select id, client_id, cents + 1, divisor, 3 - org from store.orders';
  await start(
    `insert into store.orders (id) values (1), (2)`,
    tables.replace('from store.orders;', `from (${twice}) as orders where org in (1, 2);`),
  );
  const cents = () =>
    query(`select organization_id as org, array_agg(purchase_value_in_cents::int order by id) as cents
      from purchases group by 1 order by 1`);
  expect(await cents()).toEqual([
    { org: 1n, cents: [100, 100] },
    { org: 2n, cents: [101, 101] },
  ]);
  await query('update store.orders set org = 3 where id = 1');
  await map();
  expect(await cents()).toEqual([
    { org: 1n, cents: [100] },
    { org: 2n, cents: [101] },
  ]);
  expect(await query('select * from mapping_failures')).toEqual([]);
});

const derived = `
  create schema store;
  create table store.orders (id bigint primary key, mail text not null);
  create index on store.orders (mail);
  create view mapped_customers as
    select mail as external_id, 1::bigint as organization_id, min(id)::text as name from store.orders group by mail;
  create view mapped_purchases as
    select id as external_id, 1::bigint as organization_id, mail as customer_external_id,
      100 as purchase_value_in_cents, timestamptz '2026-01-01Z' as created_at from store.orders;
  insert into mapping_sources (view, source, key) values
    ('mapped_customers', 'store.orders', 'mail'), ('mapped_purchases', 'store.orders', 'id');
  insert into store.orders select n, 'guest ' || n % 900 from generate_series(1, 3000) as n`;

it.for(['truncate store.orders', 'delete from store.orders'])(
  'holds the purchases of customers that %s would delete',
  async (statement, { start, query, map, apply }) => {
    await start('', derived);
    await query(statement);
    await map();
    const counts = () =>
      query(
        `select (select count(*)::int from customers) as customers, (select count(*)::int from purchases) as purchases`,
      );
    expect(await counts()).toEqual([{ customers: 900, purchases: 3000 }]);
    expect(await query('select view, rows from mapping_held_deletions order by 1')).toEqual([
      { view: 'mapped_customers', rows: 900n },
      { view: 'mapped_purchases', rows: 3000n },
    ]);
    await apply(true);
    expect(await counts()).toEqual([{ customers: 0, purchases: 0 }]);
    expect(await query('select * from mapping_held_deletions')).toEqual([]);
  },
);

it('makes the purchases of a deleted customer those of the guest, with their ids', async ({
  start,
  query,
  map,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana');
    insert into store.orders (id, client_id) values (1, 'a'), (2, 'a')`);
  const [{ id }] = await query('select id from mapped_purchase_numbers where external_id = 1');
  // The service refuses order 1 meanwhile, so that the view alone would not move it.
  await query(`update store.orders set divisor = 0 where id = 1; delete from store.clients;
    delete from store.orders where id = 2`);
  await map();
  expect(await query(purchases)).toEqual([{ id, org: 1n, cents: 100n, name: null }]);
  await query(
    `insert into store.clients (id, name) values ('a', 'Ana'); update store.orders set divisor = 1`,
  );
  await map();
  expect(await query(purchases)).toEqual([{ id, org: 1n, cents: 100n, name: 'Ana' }]);
});

it('keeps and reports a deleted customer with purchases of another writer', async ({
  start,
  query,
  map,
  apply,
  database,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana');
    insert into store.orders (id, client_id) values (1, 'a')`);
  const [{ id: customerId }] = await query(`select id from customers where name = 'Ana'`);
  const other = await addPurchase(database.pool, 1n, { customer_id: customerId });
  await query('delete from store.clients');
  const reported = [
    {
      view: 'mapped_customers',
      external_id: 'a',
      reason: 'is gone from the view, but has purchases of another writer',
    },
  ];
  for (const work of [map, map, () => apply(true)]) {
    await work();
    expect(
      await query(`select name, count(*)::int as purchases
      from purchases join customers on customers.id = customer_id group by 1`),
    ).toEqual([{ name: 'Ana', purchases: 2 }]);
    expect(await query('select view, external_id, reason from mapping_failures')).toEqual(reported);
  }
  await query(`delete from purchases where id = ${other}`);
  await apply(true);
  expect(await query('select name from customers')).toEqual([{ name: null }]);
  expect(await query('select * from mapping_failures')).toEqual([]);
});
