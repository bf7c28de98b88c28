import { describe, expect } from 'vitest';
import { type SeedOptions, seedDatabase } from '../src/seed/seed-database.ts';
import { test } from './support/fixtures.ts';
import { seededTables } from './support/seeded-tables.ts';

const OPTIONS: SeedOptions = {
  organizations: 2,
  customers: 300,
  purchases: 4000,
  seed: 42,
  until: new Date('2025-06-15T12:34:56.789Z'),
};
const until = `timestamptz '${OPTIONS.until.toISOString()}'`;
/** Rows that no seeded database has. */
const wrongRows = {
  'totals of a customer other than those of the paid purchases': `customers c left join lateral (
      select coalesce(sum(purchase_value_in_cents) filter (where currency = 'BRL'), 0) as spent, count(*) as orders,
             min(created_at) as first, max(created_at) as last
        from purchases p where p.customer_id = c.id and p.payment_status = 'paid'
    ) as paid on true
    where (c.total_spent_in_cents, c.total_orders) <> (paid.spent, paid.orders)
       or c.first_purchase_date is distinct from paid.first
       or c.last_purchase_date is distinct from paid.last`,
  'purchase before its customer was created, or of a customer of another organization': `purchases p
    join customers c on c.id = p.customer_id
    where p.created_at < c.created_at or p.organization_id <> c.organization_id`,
  'inconsistent amounts': `purchases
    where payment_status is not null and (total_amount_in_cents < 0
      or purchase_value_in_cents is distinct from total_amount_in_cents
      or total_amount_in_cents is distinct from
         subtotal_amount_in_cents + shipping_cost_customer_in_cents - discount_in_cents)`,
  'inconsistent metrics of an email campaign': `email_campaigns,
      jsonb_to_record(metrics) as m(sent int, delivered int, opened int, clicked int)
    where not (clicked <= opened and opened <= delivered and delivered <= sent)`,
  'inconsistent metrics of a template campaign': `template_campaigns,
      jsonb_to_record(metrics) as m(recipients int, sent int, delivered int, read int, failed int)
    where not (read <= delivered and delivered <= sent and sent + failed = recipients)`,
  'segment with another count of customers': `segments s where customer_count <>
    (select count(*) from segment_customers m where m.segment_id = s.id)`,
  'customer_tags with other sort keys than their customers': linksWithOtherKeys('customer_tags'),
  'segment_customers with other sort keys than their customers':
    linksWithOtherKeys('segment_customers'),
  'purchase with a greater id than a later one': `(select created_at < lag(created_at) over
    (partition by organization_id order by id) as is_earlier from purchases) as p where is_earlier`,
  'change before creation or after the end': `(
      select created_at, updated_at from customers
      union all select created_at, updated_at from purchases
      union all select created_at, updated_at from segments
      union all select created_at, updated_at from attributes
      union all select created_at, updated_at from flows
    ) as records where updated_at < created_at or updated_at > ${until}`,
  'campaign that changed or was sent at a wrong instant': `(
      select created_at, updated_at, sent_at from email_campaigns
      union all select created_at, updated_at, sent_at from template_campaigns
    ) as c where updated_at < created_at or updated_at > ${until} or sent_at > updated_at`,
  'purchase at the very end': `purchases where created_at = ${until}`,
  'incomplete last purchase': `(select distinct on (organization_id) payment_status from purchases
    order by organization_id, id desc) as latest where payment_status is null`,
  'old purchase with a pending payment': `purchases
    where payment_status in ('pending', 'authorized')
      and created_at < ${until} - interval '30 days'`,
  'attribute value of another type than that in its definition': `customers c
    cross join lateral jsonb_each(c.attributes) as v
    left join attributes a on a.name = v.key and a.organization_id = c.organization_id
    where a.id is null or jsonb_typeof(v.value) <> case a.type
      when 'number' then 'number' when 'boolean' then 'boolean' else 'string' end`,
};

function linksWithOtherKeys(table: string): string {
  return `${table} join customers on id = customer_id
    where (customer_created_at, customer_updated_at, customer_total_spent_in_cents)
      is distinct from (created_at, updated_at, total_spent_in_cents)`;
}

const it = test.extend(
  'count',
  ({ database }) =>
    async (sql: string, values: unknown[] = []): Promise<number> => {
      const { rows } = await database.pool.query(
        `select count(*)::int as count from ${sql}`,
        values,
      );
      return rows[0].count;
    },
);

describe('a seeded database', () => {
  const progress: [number, number][] = [];

  it.beforeAll(async ({ database }) => {
    await seedDatabase(database.url, {
      ...OPTIONS,
      onProgress: (done, total) => progress.push([done, total]),
    });
  });

  it('has rows of every resource for every organization', async ({ database, count }) => {
    for (const table of seededTables.slice(1)) {
      const { rows } = await database.pool.query(
        `select organization_id, count(*)::int as count from ${table} group by 1 order by 1`,
      );
      expect(rows, table).toHaveLength(OPTIONS.organizations);
    }
    expect(await count('customers')).toBe(OPTIONS.organizations * OPTIONS.customers);
    expect(await count('purchases')).toBe(OPTIONS.organizations * OPTIONS.purchases);
  });

  it('reports progress up to the last purchase', () => {
    const total = OPTIONS.organizations * OPTIONS.purchases;
    expect(progress.at(-1)).toEqual([total, total]);
    expect(progress.map(([done]) => done)).toEqual(
      progress.map(([done]) => done).sort((left, right) => left - right),
    );
  });

  it.for([
    'customers where total_orders > 0',
    'customers where total_orders = 0',
    `customers where phone like '+55%'`,
    `customers where phone ~ '^[1-9]{2}90\\d{7}$'`,
    `customers where attributes <> '{}'`,
    `customers where name like 'João %' and email like 'joao%'`,
    'purchases where coupons is null',
    'purchases where coupons is not null',
    `purchases where created_at > ${until} - interval '1 day'`,
    `email_campaigns where (metrics->>'sent')::int > 0`,
    'segments where customer_count > 0',
  ])('has %s', async (rows, { count }) => {
    expect(await count(rows)).toBeGreaterThan(0);
  });

  it.for(['utm_source', 'utm_medium', 'utm_campaign'])(
    'has a %s in most purchases, and none in some',
    async (column, { count }) => {
      const all = OPTIONS.organizations * OPTIONS.purchases;
      const without = await count(`purchases where ${column} is null`);
      expect(without / all).toBeGreaterThan(0.05);
      expect(without / all).toBeLessThan(0.2);
      // The largest group of a ranking has a name, also of few purchases.
      const largest = `(select from purchases where ${column} is not null
        group by ${column} having count(*) > 1.2 * ${without}) as larger`;
      expect(await count(largest)).toBeGreaterThan(0);
    },
  );

  it.for(Object.entries(wrongRows))('has no %s', async ([, rows], { count }) => {
    expect(await count(rows)).toBe(0);
  });

  it('has one currency in the first organization, and two in the second', async ({ database }) => {
    const { rows } = await database.pool.query(
      `select array_agg(distinct currency order by currency) filter (where currency is not null)
         as currencies
       from purchases group by organization_id order by organization_id`,
    );
    expect(rows).toEqual([{ currencies: ['BRL'] }, { currencies: ['BRL', 'USD'] }]);
  });

  it('has rows without a value in each field that may lack one, in each organization', async ({
    database,
  }) => {
    const { rows: columns } = await database.pool.query(
      `select table_name as table, column_name as column from information_schema.columns
       where table_schema = 'public' and is_nullable = 'YES' and is_generated = 'NEVER'
         and table_name = any($1)`,
      [seededTables.slice(1)],
    );
    expect(columns.length).toBeGreaterThan(50);
    for (const { table, column } of columns) {
      const { rows } = await database.pool.query(
        `select organization_id from ${table} where ${column} is null group by 1`,
      );
      expect(rows, `${table}.${column}`).toHaveLength(OPTIONS.organizations);
    }
  });
});
