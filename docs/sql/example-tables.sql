-- Tables of a shop: UUID and text keys, order lines, several currencies, amounts as numeric, and other names of states.
create schema store;
create table store.clients (id uuid primary key, full_name text, mail text, joined_at timestamptz not null);
create table store.orders (
  id text primary key, client_id uuid references store.clients on delete cascade,
  currency char(3) not null, state text not null, channel text, placed_at timestamptz not null);
create table store.order_lines (
  order_id text references store.orders on delete cascade, line int, quantity int not null,
  unit_price numeric(12, 2) not null, primary key (order_id, line));
create index on store.orders (client_id);
