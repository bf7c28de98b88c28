-- A batch of customers and a batch of purchases. Run this as shop_writer. A second run changes nothing.
-- If another organization has a row with a number that was drawn, the statement fails, because `organization_id`
-- cannot be null. The next run draws other numbers.
with incoming (external_id, name, email, changed_at) as (
  values ('c-81f3', 'Bruno Lima', 'bruno@example.com', timestamptz '2026-03-01 12:00Z'),
    ('c-92aa', 'Carla Dias', null, '2026-03-02 08:30Z')
), shop as (
  select id from organizations where name = 'My shop'
), numbers as (
  insert into customer_numbers (organization_id, external_id)
  select shop.id, external_id from incoming, shop
  -- This update changes no value: RETURNING then has the numbers of known keys too.
  on conflict (organization_id, external_id) do update set external_id = excluded.external_id
  returning *
)
insert into customers (id, organization_id, name, email, created_at, updated_at)
select id, organization_id, name, email, changed_at, changed_at
from incoming join numbers using (external_id)
on conflict (id) do update
  set organization_id = case customers.organization_id when excluded.organization_id then excluded.organization_id end,
    name = excluded.name, email = excluded.email, updated_at = excluded.updated_at
  where (customers.organization_id, customers.name, customers.email)
    is distinct from (excluded.organization_id, excluded.name, excluded.email);

-- The join excludes purchases of unknown customers: send customers first.
with incoming (external_id, customer, value, payment, placed_at, changed_at) as (
  values ('o-1', 'c-81f3', 9900, 'paid', timestamptz '2026-03-01 12:05Z', timestamptz '2026-03-01 12:06Z'),
    ('o-2', 'c-92aa', 4500, 'pending', '2026-03-02 08:31Z', '2026-03-02 08:31Z')
), shop as (
  select id from organizations where name = 'My shop'
), numbers as (
  insert into purchase_numbers (organization_id, external_id)
  select shop.id, external_id from incoming, shop
  on conflict (organization_id, external_id) do update set external_id = excluded.external_id
  returning *
)
insert into purchases (id, organization_id, customer_id, purchase_value_in_cents, payment_status,
  created_at, updated_at, order_id_on_integration_platform)
select numbers.id, numbers.organization_id, customer_numbers.id, value, payment,
  placed_at, changed_at, incoming.external_id
from incoming
join numbers using (external_id)
join customer_numbers
  on (customer_numbers.organization_id, customer_numbers.external_id) = (numbers.organization_id, customer)
on conflict (id) do update
  set organization_id = case purchases.organization_id when excluded.organization_id then excluded.organization_id end,
    purchase_value_in_cents = excluded.purchase_value_in_cents,
    payment_status = excluded.payment_status, updated_at = excluded.updated_at
  -- The worker copies every updated row, so rows that did not change are left out.
  where purchases.updated_at < excluded.updated_at or purchases.organization_id <> excluded.organization_id;
