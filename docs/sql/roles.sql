-- Roles and schema. Change the passwords, and run this as superuser in the database shop, before `npx crm-data-service migrate`.
create role shop_migrations login password 'secret-1';
create role shop_worker login password 'secret-2';
create role shop_api login password 'secret-3';
create role shop_writer login password 'secret-4';
-- Optional: without it, X-Data-As-Of of the customer list is an hour ago. With it, shop_api can read the statements
-- of all roles in pg_stat_activity, with the values in them, and their statistics.
grant pg_read_all_stats to shop_api;
grant create on database shop to shop_migrations;
create schema shop authorization shop_migrations;
grant usage on schema shop to shop_worker, shop_api, shop_writer;
alter role shop_migrations in database shop set search_path = shop;
alter role shop_worker in database shop set search_path = shop;
alter role shop_api in database shop set search_path = shop;
alter role shop_writer in database shop set search_path = shop;
