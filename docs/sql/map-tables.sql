-- Maps the tables of example-tables.sql. Run this as shop_migrations.
-- Adapt the views mapped_clients and mapped_orders to your tables. A further column is added to a view, to map_clients or
-- map_orders, and to mapping_deviations.

-- The keys of the shop as numbers, which never change.
create table client_numbers (external_id uuid primary key, id bigint not null unique default nextval('customers_id_seq'));
create table order_numbers (external_id text primary key, id bigint not null unique default nextval('purchases_id_seq'));
create table mapping_failures (
  source text not null, external_id text not null, kind text not null check (kind in ('refused', 'deviating')),
  message text not null, failed_at timestamptz not null default now(), primary key (source, external_id));
grant select on mapping_failures to shop_worker;  -- for status and metrics

create view mapped_clients as
select clients.id as external_id, organizations.id as organization_id,
  full_name as name, mail as email, joined_at as created_at
from store.clients, organizations where organizations.name = 'My shop';

-- A value is in the smallest unit of its currency: yen have no cents. Orders without a client are left out.
create view mapped_orders as
select orders.id as external_id, organizations.id as organization_id, client_numbers.id as customer_id,
  round(total * case currency when 'JPY' then 1 else 100 end)::bigint as value, currency::text,
  case state when 'done' then 'paid' when 'open' then 'pending' when 'returned' then 'refunded' else 'voided' end
    as payment_status,
  case channel when 'web' then 'woocommerce' when 'insta' then 'facebook' end as platform,
  placed_at as created_at
from store.orders
join client_numbers on client_numbers.external_id = client_id
cross join lateral (
  select coalesce(sum(quantity * unit_price), 0) as total from store.order_lines where order_id = orders.id) as lines,
organizations where organizations.name = 'My shop';

create function map_clients(changed uuid[]) returns void
language plpgsql security definer set search_path = shop, pg_temp as $$
begin
  -- Of two transactions that map the same row, one waits, and then sees what the other wrote.
  perform from store.clients where id = any (changed) order by id for no key update;
  -- Foreign keys do not cascade while replicated rows are applied.
  delete from purchases using client_numbers
  where customer_id = client_numbers.id and external_id = any (changed)
    and external_id not in (select external_id from mapped_clients where external_id = any (changed));
  delete from customers using client_numbers
  where customers.id = client_numbers.id and external_id = any (changed)
    and external_id not in (select external_id from mapped_clients where external_id = any (changed));
  insert into client_numbers (external_id)
  select external_id from mapped_clients where external_id = any (changed) on conflict do nothing;
  insert into customers (id, organization_id, name, email, created_at)
  select id, organization_id, name, email, created_at
  from mapped_clients join client_numbers using (external_id) where external_id = any (changed)
  on conflict (id) do update
    set name = excluded.name, email = excluded.email, created_at = excluded.created_at, updated_at = now()
    where (customers.name, customers.email, customers.created_at)
      is distinct from (excluded.name, excluded.email, excluded.created_at);
end $$;

create function map_orders(changed text[]) returns void
language plpgsql security definer set search_path = shop, pg_temp as $$
begin
  perform from store.orders where id = any (changed) order by id for no key update;
  delete from purchases using order_numbers
  where purchases.id = order_numbers.id and external_id = any (changed)
    and external_id not in (select external_id from mapped_orders where external_id = any (changed));
  insert into order_numbers (external_id)
  select external_id from mapped_orders where external_id = any (changed) on conflict do nothing;
  insert into purchases (id, organization_id, customer_id, purchase_value_in_cents, currency, payment_status,
    platform, created_at, order_id_on_integration_platform)
  select id, organization_id, customer_id, value, currency, payment_status, platform, created_at, external_id
  from mapped_orders join order_numbers using (external_id) where external_id = any (changed)
  on conflict (id) do update
    set customer_id = excluded.customer_id, purchase_value_in_cents = excluded.purchase_value_in_cents,
      currency = excluded.currency, payment_status = excluded.payment_status, platform = excluded.platform,
      created_at = excluded.created_at, updated_at = now()
    where (purchases.customer_id, purchases.purchase_value_in_cents, purchases.currency,
        purchases.payment_status, purchases.platform, purchases.created_at)
      is distinct from (excluded.customer_id, excluded.purchase_value_in_cents, excluded.currency,
        excluded.payment_status, excluded.platform, excluded.created_at);
end $$;

create function map_rows(source text, keys text[]) returns void
language plpgsql security definer set search_path = shop, pg_temp as $$
begin
  case source
    when 'clients' then perform map_clients(keys::uuid[]);
    when 'orders' then perform map_orders(keys);
  end case;
  delete from mapping_failures as failed where failed.source = map_rows.source and external_id = any (keys);
end $$;

-- Arguments of the trigger: what is mapped, and the column of its key. If the service refuses a value, the write succeeds,
-- and mapping_failures has the key until a later write or retry_mapping succeeds.
create function map_row() returns trigger
language plpgsql security definer set search_path = shop, pg_temp as $$
declare
  -- NEW is null in a DELETE, OLD in an INSERT; the functions ignore null keys.
  keys constant text[] := array[to_jsonb(new) ->> tg_argv[1], to_jsonb(old) ->> tg_argv[1]];
begin
  perform map_rows(tg_argv[0], keys);
  return null;
exception when others then
  -- Deadlocks, lack of resources, lock timeouts, shutdowns and system errors: a repetition of the write may succeed.
  if left(sqlstate, 2) in ('40', '53', '55', '57', '58') then raise; end if;
  insert into mapping_failures (source, external_id, kind, message)
  select distinct tg_argv[0], key, 'refused', sqlerrm from unnest(keys) as key where key is not null
  on conflict (source, external_id) do update
    set kind = excluded.kind, message = excluded.message, failed_at = now();
  return null;
end $$;

create trigger map_row after insert or update or delete on store.clients
  for each row execute function map_row('clients', 'id');
create trigger map_row after insert or update or delete on store.orders
  for each row execute function map_row('orders', 'id');
create trigger map_row after insert or update or delete on store.order_lines
  for each row execute function map_row('orders', 'order_id');

-- Rows whose content in the service differs from your tables.
create view mapping_deviations as
select 'clients' as source, external_id::text
from mapped_clients full join (
  select external_id, organization_id, name, email, created_at::timestamptz
  from customers join client_numbers using (id)) as stored using (external_id)
where mapped_clients is distinct from stored
union all
select 'orders', external_id
from mapped_orders full join (
  select external_id, organization_id, customer_id, purchase_value_in_cents, currency, payment_status, platform,
    created_at::timestamptz
  from purchases join order_numbers using (id)) as stored using (external_id)
where mapped_orders is distinct from stored;

-- Maps the rows that deviate or were refused, in batches with a transaction each.
create procedure retry_mapping() language plpgsql as $$
declare
  retried text;
  batch text[];
  last_key text;
  key text;
begin
  -- Orders need the numbers of their clients.
  foreach retried in array array['clients', 'orders'] loop
    insert into mapping_failures (source, external_id, kind, message)
    select source, external_id, 'deviating', 'differs from its row' from mapping_deviations where source = retried
    on conflict do nothing;
    commit;
    last_key := '';
    loop
      batch := array(
        select external_id from mapping_failures where source = retried and external_id > last_key
        order by external_id limit 1000);
      exit when cardinality(batch) = 0;
      last_key := batch[cardinality(batch)];
      begin
        perform map_rows(retried, batch);
      exception when others then
        foreach key in array batch loop
          begin
            perform map_rows(retried, array[key]);
          exception when others then
            update mapping_failures set message = sqlerrm where source = retried and external_id = key;
          end;
        end loop;
      end;
      commit;
    end loop;
  end loop;
end $$;
