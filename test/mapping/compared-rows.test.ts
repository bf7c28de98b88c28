import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import { createComparison } from '../../src/postgres/mapping/comparison.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { inMappingTransaction } from '../../src/postgres/mapping/mapping-transaction.ts';
import { createMappingRound } from '../../sync/mapping/mapping-round.ts';
import { it, log, tables } from './small-shop.ts';

// Copies and comparisons of all rows.

it('compares again what another process was asked to compare', async ({
  start,
  query,
  database,
}) => {
  await start(`insert into store.orders (id) values (1)`);
  const signal = new AbortController().signal;
  const [one, other] = [
    createMappingRound(database.pool, log),
    createMappingRound(database.pool, log),
  ];
  await one.run({ isComparing: true, signal });
  await one.run({ isComparing: true, signal });
  await query(`insert into mapping_changes (view) values ('mapped_purchases')`);
  await other.run({ isComparing: false, signal });
  const compared = async () => (await query('select compared_at from mapping_state'))[0];
  for (const before = await compared(); isDeepStrictEqual(await compared(), before); ) {
    await one.run({ isComparing: true, signal });
  }
  expect(await query('select structure is null as due from mapping_state')).toEqual([
    { due: true },
  ]);
});

it('copies rows without customers from both ends to one guest for each organization', {
  tags: ['slow'],
}, async ({ start, query }) => {
  await start(
    `insert into store.orders (id, org) select n, 1 + n % 2 from generate_series(1, 12000) as n`,
  );
  expect(
    await query(
      `select organization_id as org, count(distinct customer_id)::int as customers, count(*)::int as orders
       from purchases group by 1 order by 1`,
    ),
  ).toEqual([1n, 2n].map((org) => ({ org, customers: 1, orders: 6000 })));
  expect(await query('select count(*)::int as customers from customers')).toEqual([
    { customers: 2 },
  ]);
});

it('fails a copy as a whole if one end of it fails', async ({ start, query, apply }) => {
  await expect(
    start(
      'insert into store.orders (id) select generate_series(1, 12000)',
      `${tables}
      create function store.limited(id bigint) returns bigint language plpgsql stable as $$
        begin if id > 11000 then raise insufficient_privilege; end if; return id; end $$;
      create or replace view mapped_purchases as
        select id as external_id, org as organization_id, client_id as customer_external_id,
          store.limited(id) as purchase_value_in_cents, timestamptz '2026-01-01Z' as created_at, 'paid' as payment_status
        from store.orders`,
    ),
  ).rejects.toMatchObject({ code: '42501' });
  expect(await query('select copied_at from mapping_state')).toEqual([{ copied_at: null }]);
  await query(
    `create or replace function store.limited(id bigint) returns bigint language sql as 'select id'`,
  );
  await apply();
  expect(await query('select count(*)::int as orders from purchases')).toEqual([{ orders: 12000 }]);
});

it('copies rows once if two processes copy', async ({ start, query, apply }) => {
  const schema = `${tables} insert into store.orders (id) select generate_series(1, 12000)`;
  await start('', schema);
  await query('truncate purchases, mapped_purchase_numbers; delete from mapping_state');
  const copied = await Promise.all([apply(), apply()]);
  expect(copied.map(({ mapped }) => mapped?.written).sort()).toEqual([12_000, undefined]);
  expect(await query('select * from mapping_failures')).toEqual([]);
});

it('maps changes while rows are compared again', { tags: ['slow'] }, async ({
  start,
  query,
  apply,
}) => {
  await start('insert into store.orders (id) select generate_series(1, 12000)');
  await query('update store.orders set cents = 7 where id = 12000');
  let seen: unknown;
  await apply(true, (rows) => {
    if (rows === 5_000) {
      seen = query(
        'select count(*)::int as mapped from purchases where purchase_value_in_cents = 7',
      );
    }
  });
  expect(await seen).toEqual([{ mapped: 1 }]);
});

it('finds all rows that an empty view lacks, however many', { tags: ['slow'] }, async ({
  start,
  query,
  database,
}) => {
  await start(`insert into store.orders (id) select generate_series(1, 3000)`);
  await query(
    'alter table store.orders disable trigger all; delete from store.orders where id > 1500',
  );
  const mapping = await readMapping(database.pool);
  const comparison = createComparison(mapping, { limit: 10 });
  const step = () =>
    inMappingTransaction(database.pool, (connection) => comparison.step(connection));
  while ((await step()) !== null);
  expect(await query('select rows from mapping_held_deletions')).toEqual([{ rows: 1500n }]);
});

it('holds no deletions that another process has accepted meanwhile', async ({
  start,
  query,
  apply,
  database,
}) => {
  await start(`insert into store.orders (id) select generate_series(1, 3000)`);
  await query(
    'alter table store.orders disable trigger all; delete from store.orders where id > 1500',
  );
  const comparison = createComparison(await readMapping(database.pool), { limit: 10_000 });
  const step = () =>
    inMappingTransaction(database.pool, (connection) => comparison.step(connection));
  for (let steps = 0; steps < 3; steps += 1) expect(await step()).not.toBeNull();
  await apply(true);
  while ((await step()) !== null);
  expect(await query('select * from mapping_held_deletions')).toEqual([]);
  expect(await query('select count(*)::int as orders from purchases')).toEqual([{ orders: 1500 }]);
});
