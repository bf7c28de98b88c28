-- Constraints and indexes that Postgres drops with a column. `migrate` runs the statements whose
-- constraint or index is missing (constraints.ts); the migrations have the reasons for each.
-- NOT VALID: rows are not read, and rows that violate the constraint do not block `migrate`.
-- Foreign keys follow the unique indexes that they need.

create index customers_by_creation on customers (organization_id, created_at, id);
create index customers_by_update on customers (organization_id, updated_at, id);
create index customers_by_total_spent on customers (organization_id, total_spent_in_cents, id);
create index customers_by_email on customers (organization_id, lower(email));
create index customers_by_phone_end on customers (organization_id, reversed_digits(phone) text_pattern_ops);
create index customers_by_search_grams on customers using gin (organization_id, search_grams(search_text)) with (gin_pending_list_limit = 1024);
create unique index customers_by_id_and_organization on customers (id, organization_id);
create index segments_by_creation on segments (organization_id, created_at, id);
create index segments_by_update on segments (organization_id, updated_at, id);
create index segments_by_search_grams on segments using gin (organization_id, search_grams(search_text)) with (gin_pending_list_limit = 1024);
create unique index segments_by_id_and_organization on segments (id, organization_id);
create index tags_by_creation on tags (organization_id, created_at, id);
create unique index tags_by_id_and_organization on tags (id, organization_id);
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
create index purchases_by_creation on purchases (organization_id, created_at, id);
create index purchases_by_customer on purchases (customer_id, created_at, id);

alter table customers add constraint customers_attributes_check check (jsonb_typeof(attributes) = 'object') not valid;
alter table customers add constraint customers_default_address_check check (jsonb_typeof(default_address) = 'object') not valid;
alter table email_campaigns add constraint email_campaigns_metrics_check check (jsonb_typeof(metrics) = 'object') not valid;
alter table template_campaigns add constraint template_campaigns_channel_check check (channel in ('whatsapp', 'sms')) not valid;
alter table template_campaigns add constraint template_campaigns_metrics_check check (jsonb_typeof(metrics) = 'object') not valid;
alter table template_campaigns add constraint template_campaigns_templates_check check (jsonb_typeof(templates) = 'array') not valid;
alter table purchases add constraint purchases_coupons_check check (jsonb_typeof(coupons) = 'array') not valid;
alter table purchases add constraint coupons_at_most_65536_bytes check (octet_length(coupons::text) <= 65536) not valid;
alter table purchases add constraint texts_at_most_1024_bytes check (greatest(octet_length(order_id_on_integration_platform), octet_length(order_number), octet_length(platform), octet_length(status), octet_length(payment_status), octet_length(shipping_status), octet_length(currency), octet_length(utm_source), octet_length(utm_medium), octet_length(utm_campaign), octet_length(utm_content), octet_length(utm_term)) <= 1024) not valid;
alter table purchases add constraint customer_of_same_organization foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade not valid;
alter table segment_customers add constraint segment_of_same_organization foreign key (segment_id, organization_id) references segments (id, organization_id) on delete cascade not valid;
alter table segment_customers add constraint customer_of_same_organization foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade not valid;
alter table customer_tags add constraint customer_of_same_organization foreign key (customer_id, organization_id) references customers (id, organization_id) on delete cascade not valid;
alter table customer_tags add constraint tag_of_same_organization foreign key (tag_id, organization_id) references tags (id, organization_id) on delete cascade not valid;
