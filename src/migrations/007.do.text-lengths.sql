-- The longest texts that a purchase may hold, in bytes. DuckDB keeps each distinct value of
-- a grouped column in memory while it exports them; 50,000 values of 10 KB did not fit.
-- The numbers are those of maxTextBytes in src/domain/purchase.ts.
--
-- NOT VALID: Postgres checks every later INSERT and UPDATE, but reads no present row. So the
-- lock is short, and rows that are longer already do not block the migration.
--
-- Two constraints and not one for each column: Postgres prepares each of them for every
-- statement. Thirteen made an update of one row a quarter slower.
alter table purchases
  add constraint texts_at_most_1024_bytes check (
    greatest(
      octet_length(order_id_on_integration_platform), octet_length(order_number),
      octet_length(platform), octet_length(status), octet_length(payment_status),
      octet_length(shipping_status), octet_length(currency), octet_length(utm_source),
      octet_length(utm_medium), octet_length(utm_campaign), octet_length(utm_content),
      octet_length(utm_term)
    ) <= 1024) not valid,
  add constraint coupons_at_most_65536_bytes check (octet_length(coupons::text) <= 65536) not valid;
