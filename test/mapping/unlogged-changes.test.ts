import { expect } from 'vitest';
import { checkMapping } from '../../src/postgres/mapping/check/check.ts';
import { createMappingRound } from '../../sync/mapping/mapping-round.ts';
import { log, it as smallShop, tables } from './small-shop.ts';

// Changes whose keys are not logged, or are no keys of the view.

const it = smallShop
  .extend(
    'state',
    ({ query }) =>
      async () =>
        (await query('select as_of, problem, compared_at, structure from mapping_state'))[0],
  )
  .extend('round', ({ database }) => () => {
    const round = createMappingRound(database.pool, log);
    const { signal } = new AbortController();
    return { step: () => round.run({ isComparing: true, signal }), isDue: round.isComparisonDue };
  });

const refs = tables
  .replace('id bigint primary key, client_id', 'ref text primary key, client_id')
  .replace(
    'select id as external_id, org as organization_id, client_id',
    'select ref::bigint as external_id, org as organization_id, client_id',
  )
  .replace('from store.orders;', () => `from store.orders where ref ~ '^[0-9]+$';`)
  .replace(`'store.orders', 'id'`, `'store.orders', 'ref'`);

it('takes keys that the view cannot have as those of no row', async ({
  start,
  query,
  map,
  database,
}) => {
  await start(`insert into store.orders (ref) values ('1')`, refs);
  await query(`insert into store.orders (ref) select 'Y-' || n from generate_series(1, 150) as n;
    insert into store.orders (ref) values ('2')`);
  const { findings } = await checkMapping(database.pool);
  expect(findings.map(({ advice }) => advice).join()).not.toContain('::bigint');
  expect(findings.filter(({ severity }) => severity === 'error')).toEqual([]);
  await query(
    `insert into mapping_failures (view, external_id, reason) values ('mapped_purchases', 'Y-7', 'of an earlier release')`,
  );
  await map();
  expect(await query('select external_id as key from mapped_purchase_numbers order by 1')).toEqual([
    { key: 1n },
    { key: 2n },
  ]);
  await query(`update store.orders set ref = '3' where ref = 'Y-3'; update store.orders set ref = 'X-' || ref where ref = '1';
    insert into mapping_changes (view) values ('mapped_purchases')`);
  await map();
  expect(
    await query(
      'select external_id as key from mapped_purchase_numbers where is_stored order by 1',
    ),
  ).toEqual([{ key: 2n }, { key: 3n }]);
  expect(await query('select * from mapping_failures')).toEqual([]);
});

it('claims the begin of a comparison although each of its steps overlaps a write that asks for another', async ({
  start,
  query,
  round,
  state,
}) => {
  await start(`insert into store.orders (id) select generate_series(1, 5000)`);
  const { step } = round();
  const write = () => query(`insert into mapping_changes (view) values ('mapped_purchases')`);
  const readNow = async (): Promise<Date> =>
    (await query('select clock_timestamp() as now'))[0].now;
  const now = await readNow();
  const beforeSteps: Date[] = [];
  await write();
  while ((await state()).as_of < now) {
    beforeSteps.push(await readNow());
    await step();
    await write();
  }
  expect((await state()).structure).toBeNull();
  // The comparison takes several steps, and claims the instant of the first one.
  expect((await state()).as_of.getTime()).toBeLessThan(Number(beforeSteps.at(-2)));
});

it('refuses a virtual generated column as key, and names the expression to write', async ({
  start,
  query,
  map,
  database,
  state,
}) => {
  const [{ version }] = await query(`select current_setting('server_version_num')::int as version`);
  if (version < 180_000) return;
  await start(
    'insert into store.orders (id) values (10)',
    tables
      .replace(
        'id bigint primary key, client_id',
        'id bigint primary key, "Key" bigint generated always as (id * 2) virtual, client_id',
      )
      .replace(
        'select id as external_id, org as organization_id, client_id',
        'select id * 2 as external_id, org as organization_id, client_id',
      ),
  );
  await query(`update mapping_sources set key = '"Key"' where source = 'store.orders'`);
  const { findings } = await checkMapping(database.pool);
  expect(findings).toMatchObject([
    {
      severity: 'error',
      message:
        'The key "Key" of store.orders for mapped_purchases is a virtual generated column, which triggers cannot read.',
    },
  ]);
  await query(String(findings[0]?.advice));
  expect((await checkMapping(database.pool)).findings).toEqual([]);
  await map();
  const { compared_at } = await state();
  await query('insert into store.orders (id) values (11)');
  await map();
  expect(await query('select external_id as key from mapped_purchase_numbers order by 1')).toEqual([
    { key: 20n },
    { key: 22n },
  ]);
  expect((await state()).compared_at).toEqual(compared_at);
});

it('names a key whose column was renamed, with its table and the reason', async ({
  start,
  query,
  round,
  state,
}) => {
  await start(`insert into store.orders (id) values (1)`);
  const { step, isDue } = round();
  await query(
    'alter table store.orders rename id to number; insert into store.orders (number) values (2)',
  );
  do await step();
  while (isDue());
  expect((await state()).problem).toMatch(
    /^The key id of store\.orders for mapped_purchases fails: column "id" does not exist\./,
  );
  expect(await query('select count(*)::int as rows from purchases')).toEqual([{ rows: 2 }]);
  await query(
    `update mapping_sources set key = 'number' where key = 'id' and source = 'store.orders'`,
  );
  do await step();
  while (isDue());
  expect((await state()).problem).toBeNull();
});

it('claims no later instant without a comparison while a source is a table that was renamed', async ({
  start,
  query,
  round,
  state,
}) => {
  await start(
    'insert into store.orders (id) values (1)',
    tables.replace(
      'org bigint not null default 1);\n  create view',
      () => `org bigint not null default 1) partition by range (id);
        create table store.orders_1 partition of store.orders for values from (0) to (10);
      create view`,
    ),
  );
  const { step, isDue } = round();
  await query(`alter table store.orders rename to sales;
    create table store.sales_2 partition of store.sales for values from (10) to (20)`);
  do await step();
  while (isDue());
  expect((await state()).problem).toMatch(
    /^mapping_sources names store\.orders, which does not exist/,
  );
  await query('insert into store.sales_2 (id) values (11)');
  const [{ now }] = await query('select clock_timestamp() as now');
  while ((await state()).as_of < now) await step();
  expect(await query('select from purchases')).toHaveLength(2);
  await query(`update mapping_sources set source = 'store.sales' where source = 'store.orders'`);
  do await step();
  while (isDue());
  expect((await state()).problem).toBeNull();
});

it.for([
  [
    'a replaced function',
    `create or replace function store.label(divisor int) returns text language sql as $$ select 'changed' $$`,
    'changed',
  ],
  [
    'a function that another one calls',
    `create or replace function store.inner_label(int) returns text language sql as $$ select 'inner' $$`,
    'inner',
  ],
  [
    'a renamed label of an enum',
    `alter type store.state rename value 'open' to 'closed'`,
    'closed',
  ],
] as const)(
  'claims no later instant after %s before all rows are compared',
  async ([name, statement, wanted], { start, query, round, state }) => {
    const value = name.includes('enum') ? 'state::text' : 'store.label(divisor)';
    await start(
      'insert into store.orders (id) values (1)',
      tables
        .replace(
          'create table store.emails',
          () => `create type store.state as enum ('open', 'done');
        create function store.inner_label(int) returns text language sql as $$ select 'before' $$;
        create function store.label(divisor int) returns text language sql begin atomic select store.inner_label(divisor); end;
        create table store.emails`,
        )
        .replace(
          'divisor int not null',
          `state store.state not null default 'open', divisor int not null`,
        )
        .replace(`'paid' as payment_status`, `${value} as payment_status`),
    );
    const { step } = round();
    await step();
    await query(statement);
    const [{ now }] = await query('select clock_timestamp() as now');
    const stored = async () =>
      (await query('select payment_status as label from purchases'))[0].label;
    expect(await stored()).not.toBe(wanted);
    do {
      await step();
    } while ((await state()).as_of < now);
    expect(await stored()).toBe(wanted);
  },
);
