-- Indexes, and the constraints that may be lost with a column. Each `migrate` creates those that are
-- missing (constraints.ts), also after a column was dropped and added again. Over existing rows,
-- constraints are NOT VALID: no row is read, and a row that violates one does not block `migrate`.
-- Foreign keys follow the unique indexes that they need.

create index api_keys_by_organization on api_keys (organization_id, id);

-- Lists are walks along an index that ends in (sort column, id). Those of customers include the columns of
-- filters that few customers may match: a page of 14 of a million takes 0.2 s instead of 0.5 to 1.0. They add
-- no index that an update would write.
create index customers_by_creation on customers (organization_id, created_at, id)
  include (is_subscribed, total_orders, total_spent_in_cents, first_purchase_date, last_purchase_date);
create index customers_by_update on customers (organization_id, updated_at, id)
  include (is_subscribed, total_orders, total_spent_in_cents, first_purchase_date, last_purchase_date);
create index customers_by_total_spent on customers (organization_id, total_spent_in_cents, id)
  include (is_subscribed, total_orders, first_purchase_date, last_purchase_date);
create index customers_by_email on customers (organization_id, lower(email));
create index customers_by_phone_end on customers (organization_id, reversed_digits(phone) text_pattern_ops);
create index segments_by_creation on segments (organization_id, created_at, id);
create index segments_by_update on segments (organization_id, updated_at, id);
create index tags_by_creation on tags (organization_id, created_at, id);
create index customer_tags_by_creation on customer_tags (tag_id, customer_created_at, customer_id);
create index customer_tags_by_total_spent on customer_tags (tag_id, customer_total_spent_in_cents, customer_id);
create index customer_tags_by_update on customer_tags (tag_id, customer_updated_at, customer_id);
create index segment_customers_by_creation on segment_customers (segment_id, customer_created_at, customer_id);
create index segment_customers_by_total_spent on segment_customers (segment_id, customer_total_spent_in_cents, customer_id);
create index segment_customers_by_update on segment_customers (segment_id, customer_updated_at, customer_id);
create index attributes_by_creation on attributes (organization_id, created_at, id);
create index flows_by_update on flows (organization_id, updated_at, id);
create index email_campaigns_by_update on email_campaigns (organization_id, updated_at, id);
create index template_campaigns_by_update on template_campaigns (organization_id, updated_at, id);
-- Only of columns that hardly ever change, so that updates of status and amounts stay HOT.
create index purchases_by_creation on purchases (organization_id, created_at, id);
create index purchases_by_customer on purchases (customer_id, created_at, id);
create index purchases_by_order_number on purchases (organization_id, order_number);

-- With the organization, so that a search reads no rows of others. Each search reads all pending
-- entries, which are thousands in the default of 4 MB. No plan needs statistics of grams, which would
-- take most of the time of ANALYZE.
create index customers_by_search_grams on customers using gin (organization_id, search_grams(search_text))
  with (gin_pending_list_limit = 1024);
alter index customers_by_search_grams alter column 2 set statistics 0;
-- Digits of phone numbers, however they are punctuated.
create index customers_by_phone_grams on customers using gin (organization_id, search_grams(reversed_digits(phone)))
  with (gin_pending_list_limit = 1024);
alter index customers_by_phone_grams alter column 2 set statistics 0;
create index segments_by_search_grams on segments using gin (organization_id, search_grams(search_text))
  with (gin_pending_list_limit = 1024);
alter index segments_by_search_grams alter column 2 set statistics 0;

-- After an import of millions of purchases, and while a transaction holds a snapshot, the files of the change
-- log and of the queue of a mapping stay large although their entries are deleted. Without indexes, each poll
-- reads all of the file. An index by transaction makes an insert of 500,000 entries 0.4 s longer.
create index purchase_changes_by_transaction on purchase_changes (transaction_id);
create index purchase_changes_by_token on purchase_changes (token) where token is not null;
create index mapping_changes_by_transaction on mapping_changes (transaction_id);
create index mapping_state_by_snapshot on mapping_state (pg_snapshot_xmax(emptied_at) desc nulls last);

alter table customers add constraint customers_attributes_check check (jsonb_typeof(attributes) = 'object');
alter table customers add constraint customers_default_address_check check (jsonb_typeof(default_address) = 'object');
alter table email_campaigns add constraint email_campaigns_metrics_check check (jsonb_typeof(metrics) = 'object');
alter table template_campaigns add constraint template_campaigns_channel_check check (channel in ('whatsapp', 'sms'));
alter table template_campaigns add constraint template_campaigns_metrics_check check (jsonb_typeof(metrics) = 'object');
alter table template_campaigns add constraint template_campaigns_templates_check check (jsonb_typeof(templates) = 'array');
alter table purchases add constraint purchases_coupons_check check (jsonb_typeof(coupons) = 'array');

-- The lengths are those of maxTextBytes in src/domain/purchase.ts. DuckDB keeps each distinct value of a
-- grouped column in memory while it exports them; 50,000 values of 10 KB did not fit. One constraint
-- for all texts: with one for each column, an update of one row took a quarter longer.
alter table purchases add constraint coupons_at_most_65536_bytes check (octet_length(coupons::text) <= 65536);
alter table purchases add constraint texts_at_most_1024_bytes check (
  greatest(
    octet_length(order_id_on_integration_platform), octet_length(order_number),
    octet_length(platform), octet_length(status), octet_length(payment_status),
    octet_length(shipping_status), octet_length(currency), octet_length(utm_source),
    octet_length(utm_medium), octet_length(utm_campaign), octet_length(utm_content),
    octet_length(utm_term)
  ) <= 1024);

-- Purchases and links belong to the organization of their customer, segment and tag. One key of both
-- columns replaces a key of each: Postgres checks one for each purchase instead of two. The id is first
-- in the indexes, so that new rows are appended at their end.
create unique index customers_by_id_and_organization on customers (id, organization_id);
create unique index segments_by_id_and_organization on segments (id, organization_id);
create unique index tags_by_id_and_organization on tags (id, organization_id);
alter table purchases add constraint customer_of_same_organization
  foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade;
alter table segment_customers add constraint segment_of_same_organization
  foreign key (segment_id, organization_id) references segments (id, organization_id) on delete cascade;
alter table segment_customers add constraint customer_of_same_organization
  foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade;
alter table customer_tags add constraint customer_of_same_organization
  foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade;
alter table customer_tags add constraint tag_of_same_organization
  foreign key (tag_id, organization_id) references tags (id, organization_id) on delete cascade;
