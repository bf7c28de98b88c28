-- Maps WooCommerce's tables of orders (HPOS), copied to Postgres into the schema `wc`. Run this as shop_migrations,
-- with the number of your organization.
create view mapped_customers as
select customer_id as external_id, 1::bigint as organization_id, nullif(trim(concat(first_name, ' ', last_name)), '') as name,
  nullif(email, '') as email, date_registered at time zone 'UTC' as created_at
from wc.wc_customer_lookup;

-- A refund is a row of its own with a negative amount, so an order's value is what remains after partial refunds.
create view mapped_purchases as
select o.id as external_id, 1::bigint as organization_id,
  (select customer_id from wc.wc_order_stats where order_id = o.id) as customer_external_id,
  o.total_amount + coalesce((
    select sum(r.total_amount) from wc.wc_orders r where r.parent_order_id = o.id and r.type = 'shop_order_refund'
  ), 0) as purchase_value,
  o.currency, o.date_created_gmt at time zone 'UTC' as created_at, o.id as order_number, 'woocommerce' as platform,
  o.status,
  case o.status when 'wc-completed' then 'paid' when 'wc-processing' then 'paid' when 'wc-refunded' then 'refunded'
    when 'wc-cancelled' then 'voided' when 'wc-failed' then 'voided' else 'pending' end as payment_status,
  wc_meta.source as utm_source, wc_meta.medium as utm_medium, wc_meta.campaign as utm_campaign
from wc.wc_orders o cross join lateral (
  select max(meta_value) filter (where meta_key = '_wc_order_attribution_utm_source') as source,
    max(meta_value) filter (where meta_key = '_wc_order_attribution_utm_medium') as medium,
    max(meta_value) filter (where meta_key = '_wc_order_attribution_utm_campaign') as campaign
  from wc.wc_orders_meta where order_id = o.id) as wc_meta
where o.type = 'shop_order' and o.status not in ('trash', 'auto-draft', 'wc-checkout-draft');

-- A row of wc_orders changes its own purchase, and a refund that of its order.
insert into mapping_sources (view, source, key) values
  ('mapped_customers', 'wc.wc_customer_lookup', 'customer_id'),
  ('mapped_purchases', 'wc.wc_orders', 'id'),
  ('mapped_purchases', 'wc.wc_orders', 'parent_order_id'),
  ('mapped_purchases', 'wc.wc_order_stats', 'order_id'),
  ('mapped_purchases', 'wc.wc_orders_meta', 'order_id');
