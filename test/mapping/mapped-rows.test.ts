import { isDeepStrictEqual } from 'node:util';
import { expect, onTestFinished } from 'vitest';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { createComparison } from '../../src/postgres/mapping/comparison.ts';
import { mapChanges } from '../../src/postgres/mapping/map-changes.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { inMappingTransaction } from '../../src/postgres/mapping/mapping-transaction.ts';
import { createMapper } from '../../sync/mapping/mapper.ts';
import { createMappingRound } from '../../sync/mapping/mapping-round.ts';
import { createTotals } from '../../sync/mapping/totals.ts';
import { test } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { addOrganization } from '../support/shop.ts';

const tables = `
  create schema store;
  create table store.clients (id text primary key, name text, org bigint not null default 1, joined timestamptz, extra jsonb);
  create table store.emails (client_id text, email text);
  create table store.orders (
    id bigint primary key, client_id text, cents bigint not null default 100, divisor int not null default 1, org bigint not null default 1);
  create view mapped_customers as
    select id as external_id, org as organization_id, name, email, joined as created_at
    from store.clients left join store.emails on client_id = id;
  create view mapped_purchases as
    select id as external_id, org as organization_id, client_id as customer_external_id,
      cents / divisor as purchase_value_in_cents, timestamptz '2026-01-01Z' as created_at, 'paid' as payment_status
    from store.orders;
  insert into mapping_sources (view, source, key) values
    ('mapped_customers', 'store.clients', 'id'), ('mapped_customers', 'store.emails', 'client_id'),
    ('mapped_purchases', 'store.orders', 'id');`;

const log = createRecordedLog();

/** A mapped shop with rows, and what a test does with it. */
const it = test
  .extend('apply', ({ database }) => async (acceptDeletions = false) => {
    await applyMapping(database.pool, await readMapping(database.pool), {
      acceptDeletions,
      onProgress: () => {},
      signal: new AbortController().signal,
    });
  })
  .extend('query', ({ database }) => async (text: string) => {
    const results = await database.pool.query(text);
    return (Array.isArray(results) ? results.at(-1) : results).rows;
  })
  .extend('start', ({ database, apply, query }) => async (rows = '', schema = tables) => {
    await query(`
      drop schema if exists store cascade;
      drop table if exists customer_numbers, purchase_numbers;
      drop view if exists mapped_customers, mapped_purchases;
      delete from mapping_sources; delete from mapping_changes; delete from mapping_state; delete from mapping_failures;
      delete from mapping_held_deletions; delete from organizations; alter sequence organizations_id_seq restart`);
    await addOrganization(database.pool);
    await addOrganization(database.pool);
    await query(schema);
    if (rows !== '') await query(rows);
    await apply();
  })
  .extend(
    'map',
    ({ database }) =>
      () =>
        map(database.pool),
  );

async function map(database: Database) {
  await createMapper({ database, pollIntervalMs: 10, log }).once();
}

it('logs keys as the owner of the function, whatever the search path of a writer has', async ({
  start,
  query,
}) => {
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
  expect(await query('select external_id from purchase_numbers join purchases using (id)')).toEqual(
    [{ external_id: 1n }, { external_id: 3n }],
  );
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

it('compares all rows although more rows fail than one transaction may find', async ({
  start,
  query,
  map,
}) => {
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
  async ([before, after, collation], { start, query, apply }) => {
    await start(
      `insert into store.clients (id, name) values ('1234', 'Ana')`,
      tables.replace('store.clients (id text', `store.clients (id ${before}`),
    );
    const ids = () => query(`select id, name from customers where name = 'Ana'`);
    const known = await ids();
    await query(widened(after, collation));
    await query(`insert into store.clients (id, name) values ('12345678', 'Bea')`);
    await apply();
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

it('copies rows without customers from both ends to one guest for each organization', async ({
  start,
  query,
}) => {
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

it('copies rows once if two processes copy', async ({ start, query, database }) => {
  const schema = `${tables} insert into store.orders (id) select generate_series(1, 12000)`;
  await start('', schema);
  await query('truncate purchases, purchase_numbers; delete from mapping_state');
  const copy = async () =>
    applyMapping(database.pool, await readMapping(database.pool), {
      acceptDeletions: false,
      onProgress: () => {},
      signal: new AbortController().signal,
    });
  const copied = await Promise.all([copy(), copy()]);
  expect(copied.map(({ written }) => written).sort()).toEqual([0, 12_000]);
  expect(await query('select * from mapping_failures')).toEqual([]);
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

it('maps changes while rows are compared again', async ({ start, query, database }) => {
  await start('insert into store.orders (id) select generate_series(1, 12000)');
  await query('update store.orders set cents = 7 where id = 12000');
  let seen: unknown;
  await applyMapping(database.pool, await readMapping(database.pool), {
    acceptDeletions: false,
    onProgress: async (rows) => {
      if (rows === 5_000) {
        seen = query(
          'select count(*)::int as mapped from purchases where purchase_value_in_cents = 7',
        );
      }
    },
    signal: new AbortController().signal,
  });
  expect(await seen).toEqual([{ mapped: 1 }]);
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
    .poll(async () => String((await state()).problem), { timeout: 30_000 })
    .toMatch(/^(?!of an).*refresh_customer/);
  const { as_of: before } = await state();
  let shown = await state();
  while (shown.as_of <= before) {
    expect(shown.problem).toMatch(/refresh_customer_totals/);
    shown = await state();
  }
  // As `apply` does.
  await query('update mapping_state set problem = null');
  await expect
    .poll(async () => String((await state()).problem), { timeout: 30_000 })
    .toMatch(/refresh_customer/);
  await rename('other', 'refresh');
  await expect.poll(async () => (await state()).problem, { timeout: 30_000 }).toBeNull();
});

it('finds all rows that an empty view lacks, however many', async ({ start, query, database }) => {
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

it('has a source and a key with the names that the trigger function uses', async ({
  start,
  query,
  map,
}) => {
  await start(
    '',
    tables
      .replaceAll('store.orders', 'store.keys')
      .replace('id bigint primary key', 'found bigint primary key')
      .replace(
        'select id as external_id, org as organization_id, client_id',
        'select found as external_id, org as organization_id, client_id',
      )
      .replace(`'store.keys', 'id'`, `'store.keys', 'found'`),
  );
  await query('insert into store.keys (found) values (1)');
  expect(await query('select view, key from mapping_changes')).toEqual([
    { view: 'mapped_purchases', key: '1' },
  ]);
  await map();
});

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
