-- Rights of the worker for a mapping. Run this as shop_migrations, after `npx crm-data-service mapping triggers`, and again after
-- a view was dropped and created.
grant select on mapped_customers, mapped_purchases, mapping_sources, segment_customers to shop_worker;
grant select, delete on mapping_changes to shop_worker;
grant select, insert, update on mapping_state to shop_worker;
grant select, update on segments to shop_worker;
grant select, insert, update on mapped_customer_numbers, mapped_purchase_numbers to shop_worker;
grant select, insert, update, delete on customers, purchases, mapped_organizations, mapping_failures,
  mapping_held_deletions to shop_worker;
grant usage on sequence customers_id_seq, purchases_id_seq to shop_worker;
