-- The longest texts that a purchase may hold, in bytes. DuckDB keeps each distinct value of
-- a grouped column in memory while it exports them; 50,000 values of 10 KB did not fit.
-- The numbers are those of maxTextBytes in src/domain/purchase.ts.
--
-- NOT VALID: Postgres checks every later INSERT and UPDATE, but reads no present row. So the
-- lock is short, and rows that are longer already do not block the migration.
alter table purchases
  add constraint order_id_on_integration_platform_at_most_1024_bytes
    check (octet_length(order_id_on_integration_platform) <= 1024) not valid,
  add constraint order_number_at_most_1024_bytes
    check (octet_length(order_number) <= 1024) not valid,
  add constraint platform_at_most_1024_bytes
    check (octet_length(platform) <= 1024) not valid,
  add constraint status_at_most_1024_bytes
    check (octet_length(status) <= 1024) not valid,
  add constraint payment_status_at_most_1024_bytes
    check (octet_length(payment_status) <= 1024) not valid,
  add constraint shipping_status_at_most_1024_bytes
    check (octet_length(shipping_status) <= 1024) not valid,
  add constraint currency_at_most_1024_bytes
    check (octet_length(currency) <= 1024) not valid,
  add constraint coupons_at_most_65536_bytes
    check (octet_length(coupons::text) <= 65536) not valid,
  add constraint utm_source_at_most_1024_bytes
    check (octet_length(utm_source) <= 1024) not valid,
  add constraint utm_medium_at_most_1024_bytes
    check (octet_length(utm_medium) <= 1024) not valid,
  add constraint utm_campaign_at_most_1024_bytes
    check (octet_length(utm_campaign) <= 1024) not valid,
  add constraint utm_content_at_most_1024_bytes
    check (octet_length(utm_content) <= 1024) not valid,
  add constraint utm_term_at_most_1024_bytes
    check (octet_length(utm_term) <= 1024) not valid;
