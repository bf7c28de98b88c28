-- Purchases whose customer belongs to another organization, which only replicated rows can be.
select id, organization_id, customer_id from purchases
where not exists (
  select from customers
  where customers.id = customer_id and customers.organization_id = purchases.organization_id);

-- The purchase moves to the organization of its customer.
update purchases set organization_id = customers.organization_id
from customers
where customers.id = customer_id and customers.organization_id <> purchases.organization_id;

-- The same for segment_customers, and for segments and tags of another organization.
delete from customer_tags using customers
where customers.id = customer_id and customers.organization_id <> customer_tags.organization_id;
