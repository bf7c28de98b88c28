-- Maps the tables of example-tables.sql. Run this as shop_migrations, with the number of your organization.
create view mapped_customers as
select id as external_id, 1::bigint as organization_id, full_name as name, mail as email, joined_at as created_at
from store.clients;

create view mapped_purchases as
select id as external_id, 1::bigint as organization_id, client_id as customer_external_id, total as purchase_value,
  currency, placed_at as created_at, id as order_number,
  case state when 'done' then 'paid' when 'open' then 'pending' when 'returned' then 'refunded' else 'voided' end
    as payment_status,
  case channel when 'web' then 'woocommerce' when 'insta' then 'facebook' end as platform
from store.orders cross join lateral (
  select coalesce(sum(quantity * unit_price), 0) as total from store.order_lines where order_id = orders.id) as lines;

insert into mapping_sources (view, source, key) values
  ('mapped_customers', 'store.clients', 'id'),
  ('mapped_purchases', 'store.orders', 'id'),
  ('mapped_purchases', 'store.order_lines', 'order_id');
