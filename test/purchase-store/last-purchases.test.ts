import sql, { raw } from 'sql-template-tag';
import { expect } from 'vitest';
import { paymentStatuses } from '../../src/domain/purchase.ts';
import { createInstance, streamChunks } from '../../src/duckdb/connection.ts';
import { keyColumns } from '../../src/purchase-store/format/last-purchases.ts';
import { test } from '../support/fixtures.ts';
import { attachEmptyBase } from '../support/store-files.ts';

/** Several row groups, which two threads read at once. */
const purchases = 600_000;

test('two threads stream the keys of purchases in the order of a base', { tags: ['slow'] }, async ({
  directory,
}) => {
  const limits = { threads: 2, memoryLimit: '512MiB', spillDirectory: `${directory}/spill` };
  const options = { ...limits, dataDirectory: directory };
  const instance = await createInstance(options);
  const connection = await instance.connect();
  await attachEmptyBase(connection, `${directory}/base-0.duckdb`);
  await connection.run(`
    insert into base.label_payment_status
    select row_number() over (), unnest from unnest([${paymentStatuses.map((each) => `'${each}'`)}]);
    insert into base.purchase by name
    select i as id, 0 as customer_id, 0 as customer_key, 0 as purchase_value_in_cents, i % 9 as payment_status_key,
      make_timestamp(0) as created_at, make_timestamp(0) as updated_at, i as created_quarter_hour,
      0 as previous_quarter_hour, 0 as previous_of_status_quarter_hour
    from range(${purchases}) as purchase (i);
    checkpoint base`);
  const keys = sql`select ${await keyColumns(connection, 'base')} from ${raw('base')}.purchase`;
  let next = 0;
  for await (const chunk of streamChunks(connection, keys)) {
    const [, statuses, quarters] = chunk.getColumns();
    for (const [row, quarter] of (quarters ?? []).entries()) {
      if (quarter !== next) throw new Error(`purchase ${quarter} follows ${next - 1}`);
      const status = next % 9 > paymentStatuses.length ? 0 : next % 9;
      if (statuses?.[row] !== status) throw new Error(`${statuses?.[row]} is not ${status}`);
      next += 1;
    }
  }
  expect(next).toBe(purchases);
  connection.closeSync();
  instance.closeSync();
});
