import { expect } from 'vitest';
import { checkMapping } from '../../src/postgres/mapping/check/check.ts';
import { sqlFile } from '../support/markdown.ts';
import { it } from './small-shop.ts';

/** The columns that the mapping reads, with WooCommerce's types. */
const tables = `
  create schema wc;
  create table wc.wc_customer_lookup (
    customer_id bigint primary key, user_id bigint, first_name varchar(255) not null, last_name varchar(255) not null,
    email varchar(100), date_registered timestamp);
  create table wc.wc_orders (
    id bigint primary key, status varchar(20), currency varchar(10), type varchar(20), total_amount numeric(26, 8),
    parent_order_id bigint, date_created_gmt timestamp);
  create index on wc.wc_orders (parent_order_id);
  create table wc.wc_order_stats (order_id bigint primary key, customer_id bigint not null);
  create table wc.wc_orders_meta (
    id bigint generated always as identity primary key, order_id bigint, meta_key varchar(255), meta_value text);
  create index on wc.wc_orders_meta (order_id, meta_key);
  insert into wc.wc_customer_lookup values
    (1, 7, 'Ana', 'Souza', 'ana@example.com', '2026-01-01'), (2, null, '', '', '', null);
  insert into wc.wc_orders values
    (10, 'wc-completed', 'BRL', 'shop_order', 129.9, 0, '2026-01-02 12:00'),
    (11, 'wc-processing', 'BRL', 'shop_order', 50, 0, '2026-01-03 12:00'),
    (12, 'wc-checkout-draft', 'BRL', 'shop_order', 9, 0, '2026-01-03 12:00'),
    (13, 'wc-completed', 'BRL', 'shop_order_refund', -29.9, 10, '2026-01-04 12:00');
  insert into wc.wc_order_stats values (10, 1), (11, 2), (12, 2), (13, 1);
  insert into wc.wc_orders_meta (order_id, meta_key, meta_value) values
    (10, '_wc_order_attribution_utm_source', 'google'), (10, '_billing_address_index', 'Ana Souza')`;

const purchases = `
  select order_number as order, purchase_value_in_cents::int as cents, payment_status as status, utm_source as source, name
  from purchases join customers on customers.id = customer_id order by order_number`;

it('the mapping of WooCommerce in docs/sql has its orders, less refunds, and follows them', async ({
  start,
  map,
  query,
  database,
  onTestFinished,
}) => {
  onTestFinished(async () => {
    await query('drop schema wc cascade');
  });
  await start('', `${tables}; ${await sqlFile('woocommerce-mapping.sql')}`);
  const { findings } = await checkMapping(database.pool);
  expect(findings.filter(({ severity }) => severity === 'error')).toEqual([]);
  expect(await query(purchases)).toEqual([
    { order: '10', cents: 10_000, status: 'paid', source: 'google', name: 'Ana Souza' },
    { order: '11', cents: 5_000, status: 'paid', source: null, name: null },
  ]);
  await query(`
    insert into wc.wc_orders values (14, 'wc-completed', 'BRL', 'shop_order_refund', -50, 11, '2026-01-05');
    update wc.wc_orders set status = 'wc-refunded' where id = 11;
    update wc.wc_orders set status = 'wc-pending' where id = 12;
    update wc.wc_orders_meta set meta_value = 'newsletter' where meta_value = 'google';
    delete from wc.wc_orders where id = 13`);
  await map();
  expect(await query(purchases)).toEqual([
    { order: '10', cents: 12_990, status: 'paid', source: 'newsletter', name: 'Ana Souza' },
    { order: '11', cents: 0, status: 'refunded', source: null, name: null },
    { order: '12', cents: 900, status: 'pending', source: null, name: null },
  ]);
});
