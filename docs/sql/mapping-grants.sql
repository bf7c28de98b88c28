-- Rights of the worker for a mapping. Run this as shop_migrations.
grant select, insert, update, delete on customers, purchases, mapping_changes, mapping_state, mapped_organizations,
  mapping_failures, mapping_held_deletions to shop_worker;
grant select on mapping_sources, segment_customers to shop_worker;
grant select, update on segments to shop_worker;
grant usage on all sequences in schema shop to shop_worker;
-- The views, and the number tables that `npm run mapping -- apply` creates.
alter default privileges in schema shop grant select, insert, update on tables to shop_worker;
-- The functions that find keys by queries.
alter default privileges in schema shop grant execute on functions to shop_worker;
