import { DuckDBInstance } from '@duckdb/node-api';
import sql from 'sql-template-tag';
import { expect, it } from 'vitest';
import { purchaseColumns } from '../../src/domain/purchase.ts';
import { queryRows } from '../../src/duckdb/connection.ts';
import { createProjection, whole } from '../../src/exports/projection.ts';
import { createLayout } from '../../src/purchase-store/layout.ts';

it('shows the coupons of every purchase, however many differ', async () => {
  // More than DuckDB's appender holds before it writes.
  const count = 250_000;
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run(`attach ':memory:' as shop`);
  await connection.run(createLayout('shop'));
  await connection.run('insert into shop.customer values (0, 1)');
  await connection.run(`
    insert into shop.purchase
      (id, customer_id, customer_key, purchase_value_in_cents, created_at, created_quarter_hour, updated_at,
        coupons)
    select n, 1, 0, 100, timestamp '2026-01-01', 0, timestamp '2026-01-01', '[{"code": "C' || n || '"}]'
    from range(1, ${count + 1}) as numbers (n)`);
  const { columns, from } = await createProjection(
    connection,
    'shop',
    { condition: sql`true`, isPart: false },
    (value) => [value],
  );
  const coupons = whole(columns[purchaseColumns.findIndex(({ name }) => name === 'coupons')] ?? []);
  const [row] = await queryRows(
    connection,
    sql`select count(*), count(distinct shown), count(*) filter (where shown = '[{"code":"C' || id || '"}]')
      from (select ${coupons} as shown, purchase.id as id from ${from})`,
  );
  expect(row).toEqual([BigInt(count), BigInt(count), BigInt(count)]);
  connection.closeSync();
  instance.closeSync();
});
