-- The numbers of the keys of another system. Run this as shop_migrations.
create table customer_numbers (
  organization_id bigint not null references organizations on delete cascade,
  external_id text not null,
  id bigint not null unique default nextval('customers_id_seq'),
  primary key (organization_id, external_id));
create table purchase_numbers (
  organization_id bigint not null references organizations on delete cascade,
  external_id text not null,
  id bigint not null unique default nextval('purchases_id_seq'),
  primary key (organization_id, external_id));
grant select, insert, update, delete on customer_numbers, purchase_numbers to shop_writer;
grant usage on sequence customers_id_seq, purchases_id_seq to shop_writer;
