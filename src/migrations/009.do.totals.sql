-- The totals of customers and the counts of segments are stored columns. No trigger maintains
-- them: it would add an update of the customer to each purchase, and writers of one customer's
-- purchases would wait for each other. These functions compute all of one organization's anew
-- and update the rows that differ, with their updated_at. They return how many those were.

-- Paid purchases count, by their purchase_value_in_cents.
create function refresh_customer_totals(organization bigint) returns bigint
language sql as $$
  with paid as (
    select customer_id, sum(purchase_value_in_cents)::bigint as spent, count(*) as orders,
      min(created_at) as first_at, max(created_at) as last_at
    from purchases
    where organization_id = organization and payment_status = 'paid'
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

create function refresh_segment_counts(organization bigint) returns bigint
language sql as $$
  with counts as (
    select id, count(customer_id) as members
    from segments left join segment_customers on segment_id = id
    where segments.organization_id = organization
    group by id
  ), refreshed as (
    update segments set customer_count = members, updated_at = now()
      from counts
      where segments.id = counts.id and customer_count <> members
      returning segments.id
  )
  select count(*) from refreshed
$$;

-- Whatever the search_path of the caller, as in 002.
do $$
declare name text;
begin
  foreach name in array array['refresh_customer_totals', 'refresh_segment_counts'] loop
    execute format('alter function %I(bigint) set search_path to %I, pg_temp',
      name, current_schema());
  end loop;
end $$;
