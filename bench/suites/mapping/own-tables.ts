/** Tables of a shop, in a schema of this name. Orders are partitioned by month if `isPartitioned`. */
export const ownTables = (schema: string, isPartitioned: boolean): string => `
  create schema ${schema};
  create table ${schema}.clients (id uuid primary key, full_name text, mail text, joined_at timestamptz not null default now());
  create table ${schema}.orders (
    id bigint not null, client_id uuid, currency char(3) not null default 'BRL', total numeric(12, 2) not null,
    state text not null default 'done', placed_at timestamptz not null,
    primary key (id, placed_at)
  ) ${isPartitioned ? 'partition by range (placed_at)' : ''};
  create index on ${schema}.orders (placed_at);
  ${isPartitioned ? partitions(schema) : ''}`;

const months = Array.from({ length: 25 }, (_, month) => {
  const begin = new Date(Date.UTC(2024, month, 1));
  return begin.toISOString().slice(0, 10);
});

const partitions = (schema: string): string =>
  months
    .slice(0, -1)
    .map(
      (begin, month) =>
        `create table ${schema}.orders_${month} partition of ${schema}.orders
         for values from ('${begin}') to ('${months[month + 1]}');`,
    )
    .join('\n');

/** The views of the tables in the schema `store`, and what changes their rows. */
export const ownViews = `
  create view mapped_customers as
    select id as external_id, 1::bigint as organization_id, full_name as name, mail as email, joined_at as created_at
    from store.clients;
  create view mapped_purchases as
    select id as external_id, 1::bigint as organization_id, client_id as customer_external_id, total as purchase_value,
      currency, placed_at as created_at, case state when 'done' then 'paid' when 'returned' then 'refunded' end as payment_status
    from store.orders;
  insert into mapping_sources (view, source, key) values
    ('mapped_customers', 'store.clients', 'id'), ('mapped_purchases', 'store.orders', 'id');`;

/** Clients and orders of two years, ten orders for each client. */
export const ownRows = (schema: string, orders: number): string => `
  insert into ${schema}.clients (id, full_name, mail)
    select md5(i::text)::uuid, 'Client ' || i, 'client' || i || '@example.com'
    from generate_series(1, ${Math.ceil(orders / 10)}) as i;
  insert into ${schema}.orders (id, client_id, total, placed_at)
    select i, md5((1 + i % ${Math.ceil(orders / 10)})::text)::uuid, (i % 100000) / 100.0,
      '2024-01-01Z'::timestamptz + i * (interval '700 days' / ${orders})
    from generate_series(1, ${orders}) as i;
  analyze ${schema}.clients;
  analyze ${schema}.orders`;
