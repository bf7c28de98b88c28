-- Rights of the roles. Run this as shop_migrations, after the first `npx crm-data-service migrate` and after an upgrade.
-- It takes back all other rights, also those for a mapping, upserts and options, which are granted after it.
begin;
alter default privileges in schema shop revoke all on tables from shop_api, shop_worker, shop_writer;
alter default privileges in schema shop revoke all on functions from shop_api, shop_worker, shop_writer;
revoke all on all tables in schema shop from shop_api, shop_worker, shop_writer;
revoke all on all sequences in schema shop from shop_api, shop_worker, shop_writer;
-- The version of the schema, which every command compares with its own.
grant select on schema_migrations to shop_api, shop_worker, shop_writer;
grant select on organizations, api_keys, customers, segments, segment_customers, tags, customer_tags,
  attributes, flows, email_campaigns, template_campaigns, purchases, mapping_state, mapped_organizations to shop_api;
grant select on organizations, purchases, mapping_state, mapping_changes, mapping_failures,
  mapping_held_deletions, mapped_organizations to shop_worker;
grant select, insert, delete on purchase_changes to shop_worker;
grant select, insert, update, delete on purchase_change_pruning, purchase_change_readers to shop_worker;
grant select, insert, update, delete on organizations, api_keys, customers, segments,
  segment_customers, tags, customer_tags, attributes, flows, email_campaigns,
  template_campaigns, purchases to shop_writer;
commit;
