import { expect, onTestFinished } from 'vitest';
import { checkMapping } from '../../src/postgres/mapping/check/check.ts';
import { mapChanges } from '../../src/postgres/mapping/map-changes.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { inMappingTransaction } from '../../src/postgres/mapping/mapping-transaction.ts';
import { createTotals } from '../../sync/mapping/customer-totals.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { createMappingRound } from '../../sync/mapping/mapping-round.ts';
import { it, log, tables } from './small-shop.ts';

it('logs keys, whatever the search path of a writer has', async ({ start, query }) => {
  await start();
  onTestFinished(async () => void (await query('drop schema if exists other cascade')));
  await query(`
    create schema other;
    create function other.fails(text) returns boolean language plpgsql as $$ begin raise 'called'; end $$;
    create function other.fails(text, text) returns boolean language plpgsql as $$ begin raise 'called'; end $$;
    create operator other.= (leftarg = text, rightarg = text, function = other.fails);
    create operator other.<> (leftarg = text, rightarg = text, function = other.fails);
    create domain other.text as pg_catalog.text check (other.fails(value))`);
  await query(`begin; set local search_path = other, pg_catalog;
    insert into store.orders (id) values (1); update store.orders set cents = 5; delete from store.orders; commit`);
  expect(await query('select distinct key from mapping_changes')).toEqual([{ key: '1' }]);
});

it('deletes rows beside one for which the view fails', async ({ start, query, map }) => {
  await start(`insert into store.orders (id) values (1), (2), (3)`);
  await query('update store.orders set divisor = 0 where id = 1');
  await map();
  await query(`alter table store.orders disable trigger all; delete from store.orders where id = 2;
    alter table store.orders enable trigger all`);
  await map();
  expect(
    await query('select external_id from mapped_purchase_numbers where is_stored order by 1'),
  ).toEqual([{ external_id: 1n }, { external_id: 3n }]);
});

it('refuses a row that the view has several times, and keeps the stored one', async ({
  start,
  query,
  map,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana');
    insert into store.emails values ('a', 'a1@example.com')`);
  const stored = () => query('select email from customers where name is not null');
  await query(`insert into store.emails values ('a', 'a2@example.com')`);
  for (let round = 1; round <= 2; round += 1) {
    await map();
    expect(await stored()).toEqual([{ email: 'a1@example.com' }]);
    expect(await query('select external_id, reason from mapping_failures')).toEqual([
      { external_id: 'a', reason: 'has several rows in the view' },
    ]);
    await query(`update store.clients set name = name`);
  }
  await query(`delete from store.emails where email like 'a1%'`);
  await map();
  expect(await stored()).toEqual([{ email: 'a2@example.com' }]);
  expect(await query('select * from mapping_failures')).toEqual([]);
});

it('keeps created_at of a customer for which the view has none', async ({ start, query, map }) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana')`);
  await query(`update customers set created_at = '2020-01-01Z'`);
  await query(`update store.clients set name = 'Bea'`);
  await map();
  expect(
    await query(`select name, extract(year from created_at)::int as year from customers`),
  ).toEqual([{ name: 'Bea', year: 2020 }]);
});

it('maps other rows beside a value that is too long for an index', async ({
  start,
  query,
  map,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana')`);
  await query(`insert into store.emails
      select 'a', string_agg(md5(i::text), '') from generate_series(1, 500) as i;
    insert into store.clients (id, name) values ('b', 'Bea')`);
  await map();
  expect(await query('select name from customers order by name')).toEqual([
    { name: 'Ana' },
    { name: 'Bea' },
  ]);
  expect(await query('select external_id from mapping_failures')).toEqual([{ external_id: 'a' }]);
});

it('compares all rows although more rows fail than one transaction may find', {
  tags: ['slow'],
}, async ({ start, query, map }) => {
  await start(`insert into store.orders (id) select generate_series(1, 110)`);
  await query('update store.orders set divisor = 0 where id <= 60');
  await map();
  await query('update store.orders set divisor = 0 where id <= 105');
  await map();
  await query(
    'alter table store.orders disable trigger all; alter table store.orders enable trigger all',
  );
  await map();
  expect(await query('select structure is null as due from mapping_state')).toEqual([
    { due: false },
  ]);
});

it('computes the totals of the organization that a purchase has left', async ({
  start,
  query,
  database,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana');
    insert into store.orders (id, client_id) values (1, 'a')`);
  await query('update mapped_organizations set are_totals_due = false');
  await query('update store.orders set org = 2');
  await createMappingRound(database.pool, log).run({
    isComparing: false,
    signal: new AbortController().signal,
  });
  expect(
    await query(
      'select organization_id as id from mapped_organizations where are_totals_due order by 1',
    ),
  ).toEqual([{ id: 1n }, { id: 2n }]);
});

it('moves a customer with purchases to another organization', async ({ start, query, map }) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana'), ('b', 'Bea');
    insert into store.orders (id, client_id) values (1, 'a'), (2, 'b'), (3, 'a')`);
  await query(
    `update store.clients set org = 2 where id = 'a'; update store.orders set org = 2 where client_id = 'a'`,
  );
  await map();
  expect(
    await query(`select p.organization_id as org, name, count(*)::int as rows from purchases as p
      join customers on customers.id = customer_id group by 1, 2 order by 1, 2`),
  ).toEqual([
    { org: 1n, name: 'Bea', rows: 1 },
    { org: 2n, name: 'Ana', rows: 2 },
  ]);
});

const widened = (type: string, collation = '') => `
  drop view mapped_customers cascade;
  alter table store.clients alter column id type ${type} ${collation};
  create view mapped_customers as
    select id as external_id, org as organization_id, name, joined as created_at from store.clients`;

it.for([
  ['character varying(4)', 'character varying(8)', ''],
  ['character(4)', 'character(8)', ''],
  ['text collate "C"', 'text', 'collate "und-x-icu"'],
] as const)(
  'keeps numbers if external ids change from %s to %s',
  async ([before, after, collation], { start, query, apply, map }) => {
    await start(
      `insert into store.clients (id, name) values ('1234', 'Ana')`,
      tables.replace('store.clients (id text', `store.clients (id ${before}`),
    );
    const ids = () => query(`select id, name from customers where name = 'Ana'`);
    const known = await ids();
    await query(widened(after, collation));
    await query(`insert into store.clients (id, name) values ('12345678', 'Bea')`);
    await apply();
    await map();
    expect(await ids()).toEqual(known);
    expect(await query('select * from mapping_failures')).toEqual([]);
    expect(await query(`select count(*)::int as rows from customers where name = 'Bea'`)).toEqual([
      { rows: 1 },
    ]);
  },
);

it('forgets the failure of a key that its source writes differently', async ({
  start,
  query,
  map,
}) => {
  const id = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11';
  await start(
    `insert into store.clients (id, name) values ('${id}', '1')`,
    tables
      .replace(
        'select id as external_id, org as organization_id, name,',
        'select id::uuid as external_id, org as organization_id, (1 / name::int)::text as name,',
      )
      .replace('on client_id = id;', 'on client_id = id;'),
  );
  await query(`update store.clients set name = '0'`);
  await map();
  expect(await query('select reason from mapping_failures')).toEqual([
    { reason: 'division by zero' },
  ]);
  await query(`update store.clients set name = '1'`);
  await map();
  expect(await query('select * from mapping_failures')).toEqual([]);
});

it('creates triggers of a source that was renamed', async ({ start, query, apply, map }) => {
  await start(`insert into store.orders (id) values (1)`);
  await query(`alter table store.orders rename to sales;
    update mapping_sources set source = 'store.sales' where source = 'store.orders'`);
  await apply();
  await query('insert into store.sales (id) values (2)');
  expect(await query('select key from mapping_changes')).toEqual([{ key: '2' }]);
  await map();
});

it('logs writes of a table that mapping_sources no longer finds', async ({ start, query, map }) => {
  await start(`insert into store.orders (id) values (1)`);
  await query('alter table store.orders rename to sales');
  await map();
  await query('insert into store.sales (id) values (2)');
  expect(await query('select key from mapping_changes')).toEqual([{ key: '2' }]);
  await map();
});

it('keeps totals due if a transaction that maps has begun before them', async ({
  start,
  query,
  database,
  map,
}) => {
  await start(`insert into store.clients (id, name) values ('a', 'Ana')`);
  await map();
  await query(`insert into store.orders (id, client_id) values (1, 'a');
    update mapped_organizations set are_totals_due = true`);
  const mapping = await readMapping(database.pool);
  const totals = createTotals(database.pool, log);
  let refreshed: Promise<void> = Promise.resolve();
  await inMappingTransaction(database.pool, async (connection) => {
    await mapChanges(connection, mapping);
    let isRefreshed = false;
    refreshed = totals.refreshDue().then(() => {
      isRefreshed = true;
    });
    // The refresh ends, or waits for this transaction.
    await expect
      .poll(async () => {
        const [{ waiting }] = await query(
          `select exists (select from pg_locks where not granted and relation = 'mapping_held_deletions'::regclass) as waiting`,
        );
        return waiting || isRefreshed;
      })
      .toBe(true);
  });
  await refreshed;
  expect(await query(`select total_orders as orders from customers where name = 'Ana'`)).toEqual([
    { orders: 1n },
  ]);
});

it('compares rows if the query of a key fails', async ({ start, query, map }) => {
  await start(
    `insert into store.clients (id, name) values ('', 'Ana'), ('b', 'Bruno')`,
    tables.replace(
      `'store.emails', 'client_id'`,
      `'store.emails', 'select id from store.clients where id = client_id'`,
    ),
  );
  const stored = () => query('select name, email from customers order by name');
  const ana = { name: 'Ana', email: 'ana@example.com' };
  await query(`insert into store.emails values ('', '${ana.email}')`);
  await map();
  expect(await stored()).toEqual([ana, { name: 'Bruno', email: null }]);
  await query(`alter table store.clients rename column id to client;
    insert into store.emails values ('b', 'bruno@example.com')`);
  await map();
  expect(await stored()).toEqual([ana, { name: 'Bruno', email: 'bruno@example.com' }]);
  expect(await query('select * from mapping_changes')).toEqual([]);
});

it('maps once the process that maps has ended', async ({ start, query, map, database }) => {
  await start('insert into store.orders (id) values (1)');
  await query('update store.orders set cents = 7');
  let mapped: Promise<void> = Promise.resolve();
  await inMappingTransaction(database.pool, async (connection) => {
    mapped = map();
    await connection.query('select pg_sleep(0.1)');
  });
  await mapped;
  expect(await query('select purchase_value_in_cents as cents from purchases')).toEqual([
    { cents: 7n },
  ]);
});

it('shows a problem of totals while rows are mapped, and forgets it once they are right', async ({
  start,
  query,
  database: { pool },
}) => {
  await start(`insert into store.orders (id) values (1)`);
  const rename = (from: string, to: string) =>
    query(`alter function ${from}_customer_totals rename to ${to}_customer_totals`);
  await query(`update mapping_state set problem = 'of an earlier worker'`);
  await rename('refresh', 'other');
  const stopping = new AbortController();
  const running = createMapper({ database: pool, pollIntervalMs: 10, log }).run(stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await running;
    await query(`do $$ begin alter function other_customer_totals rename to refresh_customer_totals;
      exception when undefined_function then end $$`);
  });
  const state = async () => (await query('select problem, as_of from mapping_state'))[0];
  await expect
    .poll(async () => String((await state()).problem))
    .toMatch(/^(?!of an).*refresh_customer/);
  const { as_of: before } = await state();
  let shown = await state();
  while (shown.as_of <= before) {
    expect(shown.problem).toMatch(/refresh_customer_totals/);
    shown = await state();
  }
  // As `apply` does.
  await query('update mapping_state set problem = null');
  await expect.poll(async () => String((await state()).problem)).toMatch(/refresh_customer/);
  await rename('other', 'refresh');
  await expect.poll(async () => (await state()).problem).toBeNull();
});

it.for(['found', 'mapped_key'])(
  'has a source and a key %s, as the trigger function',
  async (key, { start, query, map, database }) => {
    await start(
      '',
      tables
        .replaceAll('store.orders', 'store.keys')
        .replace('id bigint primary key', `${key} bigint primary key`)
        .replace(
          'select id as external_id, org as organization_id, client_id',
          `select ${key} as external_id, org as organization_id, client_id`,
        )
        .replace(`'store.keys', 'id'`, `'store.keys', '${key}'`),
    );
    await query(`insert into store.keys (${key}) values (1)`);
    expect(await query('select view, key from mapping_changes')).toEqual([
      { view: 'mapped_purchases', key: '1' },
    ]);
    await map();
    expect(
      (await checkMapping(database.pool)).findings.filter(({ severity }) => severity === 'error'),
    ).toEqual([]);
    expect(await query('select problem from mapping_state')).toEqual([{ problem: null }]);
  },
);

const countTriggers = `select count(*)::int as triggers from pg_trigger
  where tgrelid = 'store.orders'::regclass and tgname = 'map_updated'`;

it('creates triggers that were dropped before the first comparison of a worker', async ({
  start,
  query,
  database,
}) => {
  await start(`insert into store.orders (id) values (1)`);
  await query('drop trigger map_updated on store.orders');
  const round = createMappingRound(database.pool, log);
  const { signal } = new AbortController();
  for (let step = 0; step < 6; step += 1) await round.run({ isComparing: true, signal });
  expect(await query(countTriggers)).toEqual([{ triggers: 1 }]);
});

it('creates triggers later if a writer keeps their table locked', async ({
  start,
  query,
  database,
}) => {
  await start(`insert into store.orders (id) values (1)`);
  await query('drop trigger map_updated on store.orders');
  const round = createMappingRound(database.pool, log);
  const { signal } = new AbortController();
  const writer = await database.pool.connect();
  await writer.query('begin; update store.orders set cents = 7');
  await round.run({ isComparing: false, signal });
  for (let step = 0; step < 3; step += 1) await round.run({ isComparing: true, signal });
  expect(await query(countTriggers)).toEqual([{ triggers: 0 }]);
  expect(await query('select problem is null as fine from mapping_state')).toEqual([
    { fine: false },
  ]);
  await writer.query('commit');
  writer.release();
  for (let step = 0; step < 6; step += 1) await round.run({ isComparing: true, signal });
  expect(await query(countTriggers)).toEqual([{ triggers: 1 }]);
  expect(await query('select purchase_value_in_cents as cents from purchases')).toEqual([
    { cents: 7n },
  ]);
});
