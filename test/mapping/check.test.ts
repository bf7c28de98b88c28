import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { checkMapping, type MappingCheck } from '../../src/postgres/mapping/check/check.ts';
import { test } from '../support/fixtures.ts';
import { createReaderRole } from '../support/role.ts';
import { addCustomer } from '../support/shop.ts';
import { clientsView, createOwnShop, mappedSources, ordersView } from './own-shop.ts';

type Definition = {
  readonly customers?: string;
  readonly purchases?: string;
  readonly sources?: string;
};

const it = test
  .extend('store', { scope: 'file' }, async ({ database, shop: { organizationId } }) => {
    await createOwnShop(database.pool, { organizationId });
    await database.pool.query(`
      create view store.everything as select * from store.orders;
      alter table store.orders add placed_gmt timestamp;
      create type store.grade as enum ('low', 'high');
      create function store.text_of(store.grade) returns text immutable language sql as $$ select 'low' $$;
      create cast (store.grade as text) with function store.text_of(store.grade)`);
    return { organizationId };
  })
  /** Checks other views and sources instead of those of the shop. */
  .extend(
    'check',
    { scope: 'file' },
    ({ database, store: { organizationId } }) =>
      async ({
        customers = clientsView(organizationId),
        purchases = ordersView(organizationId),
        sources = mappedSources,
      }: Definition = {}): Promise<MappingCheck> => {
        await database.pool.query(`
          drop view if exists mapped_customers, mapped_purchases; delete from mapping_sources;
          ${customers}; ${purchases}; ${sources}`);
        return checkMapping(database.pool);
      },
  )
  /** The lines of findings that contain a text. */
  .extend('findings', { scope: 'file' }, ({ check }) => async (definition: Definition = {}) => {
    const { findings } = await check(definition);
    return findings.map(({ severity, message, advice }) => `${severity}: ${message} → ${advice}`);
  });

const purchases = (columns: string, from = 'store.orders o') =>
  `create view mapped_purchases as select o.id as external_id, 1::bigint as organization_id, ${columns} from ${from}`;
const required = `o.client_id as customer_external_id, 5 as purchase_value,
  o.placed_at at time zone 'UTC' as created_at, 'paid' as payment_status`;
const customers = (columns: string, from = 'store.clients') =>
  `create view mapped_customers as select ${columns} from ${from}`;
const identified = 'id as external_id, 1::bigint as organization_id';
/** Without sources of tables that a view does not read. */
const sources = `insert into mapping_sources (view, source, key) values
  ('mapped_customers', 'store.clients', 'id'), ('mapped_purchases', 'store.orders', 'id')`;

describe('the check of a mapping', () => {
  it('accepts the example, and reports types, labels, currencies, guests and totals', async ({
    check,
    database,
  }) => {
    const { findings, views, totals, mapping } = await check();
    expect(findings).toEqual([]);
    expect(mapping).not.toBeNull();
    const [clients, orders] = views;
    expect(clients?.columns).toContainEqual({ name: 'external_id', type: 'bigint' });
    expect(orders?.columns).toContainEqual({ name: 'status', type: 'store.order_state' });
    expect(orders?.rows?.rows).toBe(91);
    expect(orders?.rows?.created).toEqual([
      { zone: 'UTC', first: '2026-01-02 04:30', last: expect.stringMatching(/^2026-03-/) },
      { zone: 'America/Sao_Paulo', first: '2026-01-02 01:30', last: expect.any(String) },
    ]);
    // Every eleventh of 100 orders is deleted.
    expect(orders?.rows?.sources).toContainEqual({
      source: 'store.orders',
      key: 'id',
      keys: 100,
      missing: { rows: 9, examples: expect.arrayContaining([expect.any(String)]) },
    });
    expect(orders?.rows?.labels).toContainEqual({
      column: 'payment_status',
      value: 'paid',
      rows: 47,
      values: 4,
    });
    const { rows } = await database.pool.query(`
      select count(*) filter (where client_id is null)::int as none,
        count(*) filter (where client_id in (select id from store.clients where deleted_at is not null))::int as hidden
      from store.orders where deleted_at is null`);
    expect(orders?.rows?.guests).toEqual({
      withoutCustomer: rows[0].none,
      ofUnknownCustomer: rows[0].hidden,
    });
    const { rows: sums } = await database.pool.query(`
      select currency, count(*)::int as purchases, sum(value)::numeric::float8 as value from (
        select currency,
          (select sum(quantity * unit_price) from store.order_lines where order_id = orders.id)
            - coalesce((select sum(amount) from store.refunds where order_id = orders.id), 0) as value
        from store.orders where deleted_at is null) as orders
      group by currency order by currency`);
    expect(
      totals?.map(({ currencies, ...own }) => ({
        ...own,
        currencies: currencies.map((total) => ({ ...total, value: Number(total.value) })),
      })),
    ).toEqual([
      { organization: '1', name: 'Livraria Ipê', customers: 18, purchases: 91, currencies: sums },
    ]);
  });

  it('refuses a missing view, and a table in its place', async ({ findings, database }) => {
    const line = (problem: string) =>
      expect.stringMatching(
        new RegExp(
          `^error: The view mapped_purchases ${problem}\\. → create view mapped_purchases as`,
        ),
      );
    expect(await findings({ purchases: '' })).toContainEqual(line('does not exist'));
    const table = 'create table mapped_purchases as select 1 as external_id';
    expect(await findings({ purchases: table })).toContainEqual(line('is no view'));
    await database.pool.query('drop table mapped_purchases');
  });

  it('refuses missing and unknown columns, and those that the worker computes', async ({
    findings,
  }) => {
    const found = await findings({
      customers: customers(`${identified}, mail as emial, 5 as total_orders`),
      purchases: `create view mapped_purchases as select id, client_id as customer_id, 5 as purchase_valu,
        now() as updated_at, state from store.orders`,
      sources,
    });
    for (const line of [
      /mapped_customers\.emial is no column of the service\. Columns are external_id, .*email.* → Remove emial from the view, or/,
      /mapped_customers\.total_orders is not to be mapped: the worker computes it\. → Remove total_orders/,
      /mapped_purchases\.id is not to be mapped.* → id as external_id$/,
      /mapped_purchases\.customer_id is not .* → customer_id as customer_external_id$/,
      /mapped_purchases\.updated_at is not to be mapped: the worker computes it/,
      /mapped_purchases\.state is no column .* → /,
      /mapped_purchases lacks the column external_id\. → id as external_id$/,
      /mapped_purchases lacks the column organization_id\. → 1::bigint as organization_id$/,
      /mapped_purchases lacks the column purchase_value or purchase_value_in_cents\. → total as purchase_value$/,
      /mapped_purchases lacks the column created_at\. → placed_at as created_at$/,
    ]) {
      expect(found).toContainEqual(expect.stringMatching(line));
    }
    expect(found.every((line) => line.startsWith('error'))).toBe(true);
  });

  it.for([
    [
      'o.placed_at as created_at',
      `timestamp without time zone, which has no time zone. Say which one it is in. → placed_at at time zone 'America/Sao_Paulo' as created_at`,
    ],
    [
      'o.placed_gmt as created_at',
      `timestamp without time zone, which has no time zone. Say which one it is in. → placed_gmt at time zone 'UTC' as created_at`,
    ],
    [
      'o.placed_at::date as created_at',
      `date, which has no time zone. Say which one it is in. → created_at::timestamp at time zone 'America/Sao_Paulo' as created_at`,
    ],
    ['o.id as created_at', 'bigint, which is no instant. → to_timestamp(id) as created_at'],
    [
      '5.5::float8 as purchase_value',
      'double precision, which cannot express most amounts exactly. → purchase_value::numeric as purchase_value',
    ],
    [
      '5.5::real as purchase_value_in_cents',
      'real, which cannot express most amounts exactly. → purchase_value_in_cents::numeric as purchase_value_in_cents',
    ],
    [
      '5.5::numeric::money as discount',
      'money, whose digits depend on lc_monetary. → discount::numeric as discount',
    ],
    [`'x'::text as coupons`, 'text, which is no JSON. → coupons::jsonb as coupons'],
    [`array['x'] as coupons`, 'text[], which is no JSON. → to_jsonb(coupons) as coupons'],
  ] as const)('refuses %s', async ([column, text], { findings }) => {
    const name = /\w+$/.exec(column)?.[0] as string;
    const others = required
      .split(/,\s+/)
      .filter((other) => !other.endsWith(` ${name.replace('_in_cents', '')}`));
    const found = await findings({ purchases: purchases([...others, column].join(', ')), sources });
    expect(found).toEqual([`error: mapped_purchases.${name} has the type ${text}`]);
  });

  it('refuses an amount that is given twice, and a flag that is a number', async ({ findings }) => {
    expect(
      await findings({
        customers: customers(`${identified}, 1 as is_subscribed`),
        purchases: purchases(`${required}, 500 as purchase_value_in_cents`),
        sources,
      }),
    ).toEqual([
      'error: mapped_customers.is_subscribed has the type integer, which is not boolean. → is_subscribed <> 0 as is_subscribed',
      'error: mapped_purchases has both purchase_value and purchase_value_in_cents, which may contradict each other. → ' +
        'Remove purchase_value_in_cents from the view.',
    ]);
  });

  it('refuses external ids that are null, repeated, without order, or lost in a cast', async ({
    findings,
  }) => {
    const clients = (id: string, from = 'store.clients') =>
      findings({
        customers: customers(`${id} as external_id, 1::bigint as organization_id`, from),
        purchases: purchases(required),
        sources,
      });
    expect(await clients('nullif(id, 3)')).toContain(
      'error: mapped_customers.external_id is null in 1 row. It must identify a row. → where id is not null',
    );
    expect(
      await clients('clients.id', 'store.clients cross join generate_series(1, 2)'),
    ).toContainEqual(
      expect.stringMatching(
        /^error: mapped_customers\.external_id is not unique: 20 values have several rows, such as '\d+', '\d+', '\d+'\. .* → Replace the join/,
      ),
    );
    expect(await clients('to_json(id)')).toContain(
      'error: mapped_customers.external_id has the type json, which has no order. → external_id::text as external_id',
    );
    const grades = `case id when 1 then 'high' when 2 then 'low' end::store.grade`;
    expect(await clients(grades, 'store.clients where id < 3')).toContain(
      `error: mapped_customers.external_id has the type store.grade, and 1 value differs after a cast to text and back, ` +
        `such as 'low'. → external_id::text as external_id`,
    );
  });

  it('warns of customers of another type than their keys', async ({ findings }) => {
    expect(
      await findings({
        purchases: purchases(required.replace('o.client_id', 'o.client_id::text')),
        sources,
      }),
    ).toEqual([
      'warning: mapped_purchases.customer_external_id has the type text, and mapped_customers.external_id bigint. → ' +
        'customer_external_id::bigint as customer_external_id',
    ]);
  });

  it('refuses a view that looks up the organization by its name', async ({ findings }) => {
    const byName = `${identified.replace('1::bigint', 'organizations.id').replace('id as', 'clients.id as')}`;
    expect(
      await findings({
        customers: customers(
          byName,
          `store.clients join organizations on organizations.name = 'Livraria Ipê'`,
        ),
      }),
    ).toEqual([
      'error: mapped_customers reads the table organizations. If an organization is renamed, its rows would be deleted. ' +
        'Write the number of organization_id instead. → 1::bigint as organization_id',
    ]);
  });

  it('warns of values that the service refuses, with examples', async ({ findings }) => {
    expect(
      await findings({
        customers: customers(
          'id as external_id, case when id < 5 then 999 else 1 end::bigint as organization_id',
        ),
        purchases: purchases(
          `${required.replace('5 as', 'case when o.id < 3 then 0.001 end as')}, repeat('x', 2000) as utm_source`,
        ),
        sources,
      }),
    ).toEqual([
      `warning: mapped_customers.organization_id is the number of no organization in 4 rows, such as '1', '2', '3'. ` +
        'The worker leaves these rows out. → npx crm-data-service organizations list   # prints the numbers',
      expect.stringMatching(
        /^warning: mapped_purchases\.purchase_value has a fraction of the smallest unit of its currency in 2 rows, such as '\d', '\d'\. .* → round\(purchase_value, 2\) as purchase_value$/,
      ),
      expect.stringMatching(
        /^warning: mapped_purchases\.purchase_value is null in 98 rows, such as .* → where purchase_value is not null$/,
      ),
    ]);
    expect(
      await findings({
        purchases: purchases(`${required}, repeat('x', 2000) as utm_source`),
        sources,
      }),
    ).toContainEqual(
      expect.stringMatching(
        /^warning: mapped_purchases\.utm_source has more than 1024 bytes in 100 rows.* → left\(utm_source, 250\) as utm_source$/,
      ),
    );
  });

  it('refuses currencies that are no code, and warns of missing ones', async ({ findings }) => {
    const currency = (values: string) =>
      findings({
        purchases: purchases(`${required}, (array[${values}])[o.id] as currency`),
        sources,
      });
    const most = Array.from({ length: 96 }, () => `'JPY'`);
    expect(await currency([`'R$'`, `'brl'`, `'jpy'`, `'PTS'`, ...most].join(', '))).toEqual([
      `error: mapped_purchases.currency is no code of ISO 4217 in 2 rows, such as 'brl', 'jpy'. → upper(currency) as currency`,
      `error: mapped_purchases.currency is no code of ISO 4217 in 2 rows, such as 'PTS', 'R$'. → ` +
        `case currency when 'PTS' then 'BRL' else currency end as currency`,
    ]);
    expect(await currency([...most, `'USD'`].join(', '))).toEqual([
      'warning: mapped_purchases.currency is null in 3 rows. Their amounts are taken as those of a currency with two ' +
        `decimals. → coalesce(currency, 'BRL') as currency`,
    ]);
  });

  it('warns of a view without paid purchases', async ({ findings }) => {
    expect(
      await findings({ purchases: purchases(required.replace(`'paid'`, `'PAID'`)), sources }),
    ).toEqual([
      `warning: mapped_purchases.payment_status is 'paid' in no row. Totals of customers count paid purchases only. → ` +
        `case state when 'done' then 'paid' when 'returned' then 'refunded' end as payment_status`,
    ]);
  });

  it('shows the message of a view that fails', async ({ findings }) => {
    expect(
      await findings({
        purchases: purchases(required.replace('5 as', '5 / (o.id - 7) as')),
        sources,
      }),
    ).toEqual(['error: mapped_purchases fails: division by zero. → nullif(divisor, 0)']);
  });

  it('shows no value of a row in the message of a view that fails', async ({ findings }) => {
    const failing = (purchaseValue: string, before = '') =>
      findings({
        purchases: `${before}${purchases(required.replace('5 as', `${purchaseValue} as`))}`,
        sources,
      });
    const secret = '\'Rua das Flores 7, "apto" \' || o.id';
    const raising = (options: string) => `
      create or replace function store.value_of(text) returns int language plpgsql as $$
        begin raise exception 'no value: %', $1 ${options}; end $$;`;
    const advice =
      'select * from mapped_purchases;   -- fails too, and says with which value: correct the expression';
    for (const [value, before, problem] of [
      [`(${secret})::int`, '', 'invalid input syntax for type integer'],
      [`store.value_of(${secret})`, raising(''), 'raises an exception'],
      [`store.value_of(${secret})`, raising("using errcode = '22023'"), 'raises an exception'],
    ] as const) {
      expect(await failing(value, before)).toEqual([
        `error: mapped_purchases fails: ${problem}. → ${advice}`,
      ]);
    }
  });

  it('refuses keys of customers with different collations', async ({ findings }) => {
    expect(
      await findings({
        customers: customers(`id::text collate "C" as external_id, 1::bigint as organization_id`),
        purchases: purchases(
          required.replace('o.client_id', 'o.client_id::text collate "en-x-icu"'),
        ),
        sources: mappedSources,
      }),
    ).toContainEqual(
      expect.stringMatching(/which collation.* → … collate "C" as customer_external_id/),
    );
  });

  it('refuses sources that are missing, no table, or whose key fails', async ({ findings }) => {
    const withSource = (source: string, key: string) =>
      findings({
        sources: `${mappedSources} insert into mapping_sources (view, source, key)
          values ('mapped_purchases', '${source}', '${key}')`,
      });
    const row = (source: string, key: string) =>
      `where view = 'mapped_purchases' and source = '${source}' and key = '${key}';`;
    const names = 'The view reads store.order_lines, store.orders, store.refunds.';
    expect(await withSource('store.ordes', 'id')).toEqual([
      `error: mapping_sources names store.ordes for mapped_purchases, which does not exist. ${names} → ` +
        `delete from mapping_sources ${row('store.ordes', 'id')}`,
    ]);
    expect(await withSource('store.everything', 'id')).toEqual([
      `error: mapping_sources names store.everything for mapped_purchases, which is a view. ${names} → ` +
        `delete from mapping_sources ${row('store.everything', 'id')}`,
    ]);
    expect(await withSource('store.', 'id')).toContainEqual(
      expect.stringMatching(
        /^error: mapping_sources names store\. for .* (cannot be read|does not exist)/,
      ),
    );
    expect(await withSource('store.orders_2026_01', 'id')).toContain(
      'error: mapping_sources names store.orders_2026_01 and store.orders, of which it is a part. → ' +
        "delete from mapping_sources where to_regclass(source) = 'store.orders_2026_01'::regclass;",
    );
    expect(await withSource('store.orders', 'number')).toEqual([
      `error: The key number of store.orders for mapped_purchases fails: column "number" does not exist. → ` +
        `update mapping_sources set key = 'id' ${row('store.orders', 'number')}`,
    ]);
    expect(await withSource('store.orders', 'id::text')).toEqual([
      'warning: The key id::text of store.orders for mapped_purchases has the type text, and mapped_purchases.external_id bigint. → ' +
        `update mapping_sources set key = '(id::text)::bigint' ${row('store.orders', 'id::text')}`,
    ]);
    expect(await withSource('store.orders', 'channel')).toEqual([
      expect.stringMatching(
        /^error: The key channel of store\.orders .* has the type text, .*: invalid input syntax for type bigint\. → /,
      ),
    ]);
    expect(await withSource('store.refunds', 'id + 900')).toEqual([
      'warning: The key id + 900 of store.refunds gives no external_id of mapped_purchases. → ' +
        `update mapping_sources set key = '…' ${row('store.refunds', 'id + 900')}`,
    ]);
    expect(
      await withSource(
        'store.clients',
        'select o.id from store.orders o where o.client_id = clients.id',
      ),
    ).toEqual([]);
  });

  it('refuses a view without a source, and warns of tables without one', async ({ findings }) => {
    const found = await findings({
      sources: mappedSources.replace(/\('mapped_customers.*?\), /, ''),
    });
    expect(found).toEqual([
      'error: mapping_sources has no row for mapped_customers, so its changes would not be noticed. → ' +
        `insert into mapping_sources (view, source, key) values ('mapped_customers', 'store.clients', 'id');`,
    ]);
    expect(await findings({ sources })).toContain(
      'warning: mapped_purchases reads store.order_lines, which mapping_sources does not name. Only comparisons find its changes. → ' +
        `insert into mapping_sources (view, source, key) values ('mapped_purchases', 'store.order_lines', '…');`,
    );
  });

  it('names the table with its schema, and the owner of the view, that lacks a right', async ({
    check,
    database,
    onTestFinished,
  }) => {
    await check();
    const role = await createReaderRole(database);
    onTestFinished(async () => {
      await database.pool.query('drop view mapped_purchases');
      await role.drop();
    });
    await database.pool.query(`
      grant usage on schema store to ${role.name}; grant select on store.order_lines, store.refunds to ${role.name};
      grant create on schema public to ${role.name}; alter view mapped_purchases owner to ${role.name};
      revoke create on schema public from ${role.name}`);
    const { findings } = await checkMapping(database.pool);
    expect(findings.map(({ advice }) => advice)).toContain(
      `grant select on store.orders to ${role.name};`,
    );
  });

  it('warns of rows that the mapping has not written', async ({
    findings,
    database,
    store,
    onTestFinished,
  }) => {
    const customer = await addCustomer(database.pool, store.organizationId);
    onTestFinished(async () => {
      await database.pool.query('delete from customers where id = $1', [customer]);
    });
    expect(await findings()).toEqual([
      'warning: The organization 1 already has 1 row in customers, which stay beside those of mapped_customers. ' +
        'If an earlier mapping wrote them, delete them. → delete from customers where organization_id = 1;',
    ]);
  });

  it('states what a role without rights must be granted', async ({
    check,
    database,
    onTestFinished,
  }) => {
    await check();
    const role = await createReaderRole(database);
    const pool = createPool(role.url, { max: 1, applicationName: 'test' });
    onTestFinished(async () => {
      await pool.end();
      await role.drop();
    });
    const lines = async () =>
      (await checkMapping(pool)).findings.map(({ severity, advice }) => `${severity}: ${advice}`);
    await database.pool.query(`revoke select on mapped_customers from ${role.name}`);
    await database.pool.query(`revoke create on schema public from public`);
    expect(await lines()).toContain(`error: grant select on mapped_customers to ${role.name};`);
    await database.pool.query(
      `grant select on mapped_customers to ${role.name}; grant usage on schema store to ${role.name}`,
    );
    expect(await lines()).toEqual([
      `error: grant create on schema public to ${role.name};`,
      `error: grant trigger on all tables in schema store to ${role.name};`,
      // The tables of the numbers.
      ...Array(2).fill(expect.stringMatching(/^error: grant \w+ to /)),
      ...['clients', 'order_lines', 'orders', 'refunds'].map((table) =>
        expect.stringContaining(`warning: grant select on store.${table} to ${role.name};`),
      ),
      expect.stringMatching(/^warning: Ignore this, or run .* as a member of \w+\.$/),
    ]);
    await database.pool.query(`grant create on schema public to ${role.name};
      grant trigger, select on all tables in schema store to ${role.name}`);
    expect((await checkMapping(pool)).findings).toEqual([
      ...['customer', 'purchase'].map((name) => ({
        severity: 'error',
        view: `mapped_${name}s`,
        message: `Only the owner of mapped_${name}_numbers may give its external ids the type of mapped_${name}s.external_id.`,
        advice: expect.stringMatching(/^grant \w+ to /),
      })),
      {
        severity: 'warning',
        view: 'mapped_customers',
        message: expect.stringMatching(
          /does not own .*session_replication_role.*only comparisons find the changes/,
        ),
        advice: expect.stringMatching(/^Ignore this, or run .* as a member of /),
      },
    ]);
  });
});
