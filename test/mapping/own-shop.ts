import pg from 'pg';
import type { Database } from '../../src/postgres/connection/pool.ts';

const { escapeLiteral } = pg;

export type KeyType = 'bigint' | 'uuid';

export type OwnShopOptions = {
  readonly organizationId: bigint;
  readonly keys?: KeyType;
  readonly clients?: number;
  readonly orders?: number;
  /** Partitions of `store.orders`: the months of 2026 from January. */
  readonly months?: number;
};

/** SQL of the key of a client or an order, from SQL of its number. */
export const keyOf = (keys: KeyType, table: 'clients' | 'orders', number: string): string =>
  keys === 'bigint' ? `(${number})::bigint` : `md5('${table} ' || (${number}))::uuid`;

/**
 * Creates the schema `store` of a shop, with rows, and its mapping: the views and `mapping_sources`. The
 * organization must exist. Every tenth client is deleted, every ninth order is of a guest, every eleventh
 * is deleted, every thirteenth is refunded by half. Orders are in BRL, JPY and KWD.
 */
export async function createOwnShop(database: Database, options: OwnShopOptions): Promise<void> {
  const { organizationId, keys = 'bigint', clients = 20, orders = 100, months = 3 } = options;
  await database.query(shopTables(keys, months));
  await database.query(shopRows(keys, clients, orders, months));
  await database.query(mappedViewsOf(organizationId));
  await database.query(mappedSources);
}

function shopTables(keys: KeyType, months: number): string {
  const partitions = Array.from({ length: months }, (_, month) => partitionOf(month + 1));
  return `
    create schema store;
    create type store.order_state as enum ('open', 'done', 'returned', 'cancelled');
    create table store.clients (
      id ${keys} primary key, full_name text, mail text, wants_mail boolean not null default false,
      joined_at timestamp not null, deleted_at timestamptz);
    create table store.orders (
      id ${keys} not null, client_id ${keys}, currency char(3) not null, state store.order_state not null,
      channel text, placed_at timestamp not null, deleted_at timestamptz, primary key (id, placed_at)
    ) partition by range (placed_at);
    create index on store.orders (client_id);
    create table store.order_lines (
      order_id ${keys}, line int, quantity int not null, unit_price numeric(12, 3) not null,
      primary key (order_id, line));
    create table store.refunds (
      id bigint generated always as identity primary key, order_id ${keys} not null, amount numeric not null);
    create index on store.refunds (order_id);
    ${partitions.join('\n')}`;
}

/** The statement that creates the partition of a month of 2026. */
export function partitionOf(month: number): string {
  const begin = (number: number) => `2026-${String(number).padStart(2, '0')}-01`;
  const end = month === 12 ? '2027-01-01' : begin(month + 1);
  return `create table store.orders_${begin(month).slice(0, 7).replace('-', '_')}
    partition of store.orders for values from ('${begin(month)}') to ('${end}');`;
}

function shopRows(keys: KeyType, clients: number, orders: number, months: number): string {
  const order = keyOf(keys, 'orders', 'n');
  return `
    insert into store.clients
    select ${keyOf(keys, 'clients', 'n')}, 'Client ' || n, 'client-' || n || '@example.com', n % 2 = 0,
      timestamp '2025-12-01' + n * interval '1 minute', case when n % 10 = 0 then now() end
    from generate_series(1, ${clients}) as n;
    insert into store.orders
    select ${order},
      case when n % 9 <> 0 then ${keyOf(keys, 'clients', `1 + n % ${clients}`)} end,
      (array['BRL', 'BRL', 'BRL', 'JPY', 'KWD'])[1 + n % 5],
      (array['done', 'done', 'done', 'open', 'returned', 'cancelled'])[1 + n % 6]::store.order_state,
      (array['web', 'woo', 'app'])[1 + n % 3],
      timestamp '2026-01-01 22:30' + make_interval(months => n % ${months}, hours => n % 600),
      case when n % 11 = 0 then now() end
    from generate_series(1, ${orders}) as n;
    insert into store.order_lines
    select ${order}, line, 1 + n % 3, case n % 5 when 3 then 100 + n % 50 when 4 then 4.5 else 19.9 end
    from generate_series(1, ${orders}) as n, generate_series(1, 2) as line;
    insert into store.refunds (order_id, amount)
    select order_id, sum(quantity * unit_price) / 2 from store.order_lines
    where order_id in (select ${order} from generate_series(13, ${orders}, 13) as n) group by order_id;
    analyze store.clients, store.orders, store.order_lines, store.refunds`;
}

export const clientsView = (organizationId: bigint): string => `
  create view mapped_customers as
  select id as external_id, ${organizationId}::bigint as organization_id, full_name as name, mail as email,
    wants_mail as is_subscribed, joined_at at time zone 'America/Sao_Paulo' as created_at
  from store.clients where deleted_at is null;`;

export const ordersView = (organizationId: bigint): string => `
  create view mapped_purchases as
  select o.id as external_id, ${organizationId}::bigint as organization_id, o.client_id as customer_external_id,
    coalesce((select sum(l.quantity * l.unit_price) from store.order_lines l where l.order_id = o.id), 0)
      - coalesce((select sum(r.amount) from store.refunds r where r.order_id = o.id), 0) as purchase_value,
    o.currency, o.placed_at at time zone 'America/Sao_Paulo' as created_at, o.state as status,
    case o.state when 'open' then 'pending' when 'done' then 'paid' when 'returned' then 'refunded'
      when 'cancelled' then 'voided' end as payment_status,
    case o.channel when 'woo' then 'woocommerce' else o.channel end as platform
  from store.orders o where o.deleted_at is null;`;

export const mappedViewsOf = (organizationId: bigint): string =>
  clientsView(organizationId) + ordersView(organizationId);

const sources = [
  ['mapped_customers', 'store.clients', 'id'],
  ['mapped_purchases', 'store.orders', 'id'],
  ['mapped_purchases', 'store.order_lines', 'order_id'],
  ['mapped_purchases', 'store.refunds', 'order_id'],
] as const;

export const mappedSources = `insert into mapping_sources (view, source, key) values
  ${sources.map((source) => `(${source.map((text) => escapeLiteral(text)).join(', ')})`).join(', ')};`;
