-- Rights of the roles. Run this as shop_migrations, after `npm run migrate`.
grant select on all tables in schema shop to shop_api;
alter default privileges in schema shop grant select on tables to shop_api;
-- The version of the schema, which every command compares with its own.
grant select on schema_migrations to shop_worker, shop_writer;
grant select on organizations, purchases to shop_worker;
grant select on mapping_state, mapping_changes, mapping_failures, mapping_held_deletions to shop_worker;
grant select, insert, delete on purchase_changes to shop_worker;
grant select, insert, update, delete on purchase_change_pruning, purchase_change_readers to shop_worker;
grant select, insert, update, delete on organizations, api_keys, customers, segments,
  segment_customers, tags, customer_tags, attributes, flows, email_campaigns,
  template_campaigns, purchases to shop_writer;
grant usage on all sequences in schema shop to shop_writer;
