import pg from 'pg';
import { type Column, column, quote, type Sites, type Store, tableOf, typeOf } from './store.ts';

// What the shop's tables mean, as views and as plain queries.

const { escapeLiteral } = pg;

export const feeFunction = (store: Store): string =>
  `create or replace function store.fee(cents numeric) returns numeric language sql immutable as 'select cents + ${store.fee}'`;

const instant = (
  store: Store,
  table: 'clients' | 'orders',
  name: string,
  alias: string,
): string => {
  const { name: quoted, type } = (store[table].columns as Record<string, Column>)[name] as Column;
  const value = `${alias}.${quote(quoted)}`;
  return type === 'timestamptz' ? value : `${value} at time zone 'America/Sao_Paulo'`;
};

const organizationOf = (value: string, { first, second }: Sites): string =>
  `case ${value}::int when 2 then ${second}::bigint else ${first}::bigint end`;

/** The view over orders that the mapped view reads. */
export const shownView = (store: Store): string => {
  const of = (name: keyof Store['orders']['columns']) => column(store, 'orders', name, 'o');
  const columns = Object.keys(store.orders.columns) as (keyof Store['orders']['columns'])[];
  return `create or replace view store.shown as
    select ${columns.map((name) => `${of(name)} as ${name}`).join(', ')} from ${tableOf(store, 'orders')} as o
    where not ${of('hidden')} and ${of('cents')}::numeric >= ${store.minCents}`;
};

export function customersView(store: Store, sites: Sites): string {
  const of = (name: keyof Store['clients']['columns']) => column(store, 'clients', name, 'c');
  return `create or replace view mapped_customers as
    select ${of('id')} as external_id, ${organizationOf(of('site'), sites)} as organization_id,
      ${of('name')} as name, ${instant(store, 'clients', 'joined', 'c')} as created_at
    from ${tableOf(store, 'clients')} as c`;
}

export function purchasesView(store: Store, sites: Sites): string {
  const line = (name: keyof Store['lines']['columns']) => column(store, 'lines', name, 'l');
  const isOfOrder = comparable(store, 'lines', 'order', 'l', 's.id');
  const created =
    store.orders.columns.placed.type === 'timestamptz'
      ? 's.placed'
      : `s.placed at time zone 'America/Sao_Paulo'`;
  return `create or replace view mapped_purchases as
    select s.id as external_id, ${organizationOf('s.site', sites)} as organization_id, s.client as customer_external_id,
      store.fee(s.cents::numeric) + coalesce((
        select sum(${line('cents')}::numeric) from ${tableOf(store, 'lines')} as l where ${isOfOrder}), 0)
        as purchase_value_in_cents,
      ${created} as created_at, s.state::text as status, s.note as utm_source, s.id::text as order_number,
      (select string_agg(${column(store, 'labels', 'name', 'b')}, ',' order by ${column(store, 'labels', 'name', 'b')})
       from ${tableOf(store, 'lines')} as l join ${tableOf(store, 'labels')} as b
         on ${column(store, 'labels', 'id', 'b')}::text = ${line('label')}::text
       where ${isOfOrder}) as utm_campaign
    from store.shown as s`;
}

/** Without casts if the types are the same, so that an index is used. */
function comparable(
  store: Store,
  table: 'lines',
  name: 'order',
  alias: string,
  id: string,
): string {
  const other = column(store, table, name, alias);
  return typeOf(store, table, name) === typeOf(store, 'orders', 'id')
    ? `${other} = ${id}`
    : `${other}::text = ${id}::text`;
}

/** Rows of mapping_sources that are true now. */
export function sourcesOf(store: Store): readonly (readonly [string, string, string])[] {
  const cast = (name: string) => (store.areKeysCast ? `${name}::text` : name);
  const lines = tableOf(store, 'lines');
  const labels = quote(store.labels.name);
  return [
    ['mapped_customers', tableOf(store, 'clients'), cast(column(store, 'clients', 'id'))],
    ['mapped_purchases', tableOf(store, 'orders'), column(store, 'orders', 'id')],
    ['mapped_purchases', lines, cast(column(store, 'lines', 'order'))],
    [
      'mapped_purchases',
      tableOf(store, 'labels'),
      `select ${column(store, 'lines', 'order', 'l')} from ${lines} as l
       where ${column(store, 'lines', 'label', 'l')}::text = ${labels}.${column(store, 'labels', 'id')}::text`,
    ],
  ];
}

export const replaceSources = (store: Store): string =>
  `delete from mapping_sources; insert into mapping_sources (view, source, key) values
   ${sourcesOf(store)
     .map((source) => `(${source.map((text) => escapeLiteral(text)).join(', ')})`)
     .join(', ')}`;

/** What the service must have, from the shop's tables alone. */
export function expectedRows(store: Store, sites: Sites): { customers: string; purchases: string } {
  const client = (name: keyof Store['clients']['columns']) => column(store, 'clients', name, 'c');
  const order = (name: keyof Store['orders']['columns']) => column(store, 'orders', name, 'o');
  const line = (name: keyof Store['lines']['columns']) => column(store, 'lines', name, 'l');
  return {
    customers: `
      select concat_ws('|', ${client('id')}, ${organizationOf(client('site'), sites)}, ${client('name')},
        extract(epoch from ${instant(store, 'clients', 'joined', 'c')})::bigint) as row
      from ${tableOf(store, 'clients')} as c`,
    purchases: `
      with lines as (
        select ${line('order')}::text as id, sum(${line('cents')}::numeric) as cents,
          string_agg(${column(store, 'labels', 'name', 'b')}, ',' order by ${column(store, 'labels', 'name', 'b')}) as labels
        from ${tableOf(store, 'lines')} as l left join ${tableOf(store, 'labels')} as b
          on ${column(store, 'labels', 'id', 'b')}::text = ${line('label')}::text group by 1
      )
      select concat_ws('|', ${order('id')}, ${organizationOf(order('site'), sites)}, coalesce(c.id, 'guest'),
        ${order('cents')}::numeric + ${store.fee} + coalesce(lines.cents, 0), ${order('state')},
        extract(epoch from ${instant(store, 'orders', 'placed', 'o')})::bigint, ${order('note')}, coalesce(lines.labels, '-')) as row
      from ${tableOf(store, 'orders')} as o
        left join lines on lines.id = ${order('id')}::text
        left join (
          select ${client('id')}::text as id, ${client('site')}::int as site from ${tableOf(store, 'clients')} as c
        ) as c on c.id = ${order('client')}::text and (c.site = 2) = (${order('site')}::int = 2)
      where not ${order('hidden')} and ${order('cents')}::numeric >= ${store.minCents}`,
  };
}

/** The rows of the mapped organizations, as `expectedRows` writes them. */
export const storedRows = ({ first, second }: Sites): { customers: string; purchases: string } => ({
  customers: `
    select concat_ws('|', external_id, organization_id, name, extract(epoch from created_at)::bigint) as row
    from customers left join (select * from mapped_customer_numbers where is_stored) as numbers using (id, organization_id)
    where organization_id in (${first}, ${second})
      and id not in (select guest_customer_id from mapped_organizations where guest_customer_id is not null)`,
  purchases: `
    select concat_ws('|', numbers.external_id, purchases.organization_id, coalesce(customer.external_id::text, 'guest'),
      purchase_value_in_cents, status, extract(epoch from created_at)::bigint, utm_source, coalesce(utm_campaign, '-')) as row
    from purchases
      left join (select * from mapped_purchase_numbers where is_stored) as numbers using (id, organization_id)
      left join (select external_id, id, organization_id as organization from mapped_customer_numbers where is_stored) as customer
        on (customer.id, organization) = (customer_id, purchases.organization_id)
    where purchases.organization_id in (${first}, ${second})`,
});
