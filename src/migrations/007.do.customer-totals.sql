-- refresh_customer_totals for shops with several currencies.

drop function refresh_customer_totals(bigint);

-- Paid purchases count, by their purchase_value_in_cents. Their number and dates are those of all currencies.
-- Their sum is that of one currency, because a sum of several has no unit: of_currency, or the organization's
-- most frequent one (by purchases, ties by name). Purchases without a currency are of the most frequent one.
-- With all_currencies, the sum is that of all.
create function refresh_customer_totals(
  organization bigint, of_currency text default null, all_currencies boolean default false
) returns bigint
language sql as $$
  with grouped as materialized (
    select customer_id, currency, count(*) as purchases,
      sum(purchase_value_in_cents) filter (where payment_status = 'paid') as spent,
      count(*) filter (where payment_status = 'paid') as orders,
      min(created_at) filter (where payment_status = 'paid') as first_at,
      max(created_at) filter (where payment_status = 'paid') as last_at
    from purchases
    where organization_id = organization
    group by customer_id, currency
  ), most_frequent as (
    select (
      select currency from grouped where currency is not null
      group by currency order by sum(purchases) desc, currency collate "C" limit 1
    ) as name
  ), paid as (
    select customer_id, sum(orders)::bigint as orders, min(first_at) as first_at, max(last_at) as last_at,
      (sum(spent) filter (
        where all_currencies or coalesce(currency, name) is not distinct from coalesce(of_currency, name)
      ))::bigint as spent
    from grouped, most_frequent
    group by customer_id
  ), totals as (
    select id, coalesce(spent, 0) as spent, coalesce(orders, 0) as orders, first_at, last_at
    from customers left join paid on customer_id = id
    where organization_id = organization
  ), refreshed as (
    update customers set
        total_spent_in_cents = spent, total_orders = orders,
        first_purchase_date = first_at, last_purchase_date = last_at, updated_at = now()
      from totals
      where customers.id = totals.id
        and (total_spent_in_cents, total_orders, first_purchase_date, last_purchase_date)
          is distinct from (spent, orders, first_at, last_at)
      returning customers.id
  )
  select count(*) from refreshed
$$;

-- As in 003.
do $$
begin
  execute format(
    'alter function refresh_customer_totals(bigint, text, boolean) set search_path to %I, pg_temp',
    current_schema());
end $$;
