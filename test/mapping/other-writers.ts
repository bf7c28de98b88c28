import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { expect } from 'vitest';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { isConnectionLoss } from '../support/chaos/writers.ts';
import { documentedFile } from '../support/documented-database.ts';

// Writers of organizations that are not mapped, in the same tables: 2 has ids of its own, 3 is written by the
// upserts of docs/sql.

/** Writes organization 2 under ids of its own, some of which the mapping draws. */
const writeExplicitly = `
  with numbers as (
    select (select last_value from customers_id_seq) + 2 as customer, (select last_value from purchases_id_seq) + n as purchase
    from generate_series(1, 3) as n
  ), customer as (
    insert into customers (id, organization_id, name) select distinct customer, 2, 'Explicit' from numbers returning id
  ), purchase as (
    insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
    select purchase, 2, customer.id, purchase from numbers, customer returning id
  )
  insert into explicit_rows select customer.id, purchase.id from customer, purchase`;

/** Starts both writers, and resolves with a function that resolves after the signal is aborted. */
export async function startOtherWriters(
  database: Database,
  signal: AbortSignal,
): Promise<() => Promise<unknown>> {
  await database.query('create table explicit_rows (customer_id bigint, purchase_id bigint)');
  await database.query((await documentedFile('upsert-tables.sql')).replace(/^grant .*$/gm, ''));
  const upserts = await documentedFile('upserts.sql');
  // Its numbers are drawn before another writer uses the next ids.
  await database.query(upserts);
  const writing = Promise.all(
    [writeExplicitly, upserts].map((statement) => writeDirectly(database, statement, signal)),
  );
  writing.catch(() => {});
  return () => writing;
}

/** Repeats a statement. */
async function writeDirectly(
  database: Database,
  statement: string,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await sleep(50);
    await database.query(`rollback; ${statement}`).catch((error) => {
      // The mapping may have drawn the id.
      const isExpected =
        isConnectionLoss(error) ||
        (error instanceof pg.DatabaseError && /^(23505|40P01|40001)$/.test(error.code ?? ''));
      if (!isExpected) throw error;
    });
  }
}

/** Requires that the rows of these organizations are those that the writers have written. */
export async function expectRowsOfOthers(database: Database): Promise<void> {
  const { rows } = await database.query(
    `select (select count(*)::int from explicit_rows) > 5 as "areMany",
       array(select (customer_id, id, purchase_value_in_cents)::text from purchases where organization_id = 2 order by 1)
         = array(select (customer_id, purchase_id, purchase_id)::text from explicit_rows order by 1) as explicit,
       (select count(*)::int from customers where organization_id = 2)
         = (select count(distinct customer_id)::int from explicit_rows) as customers,
       array(select external_id || ' ' || purchase_value_in_cents from purchases
         join purchase_numbers using (id, organization_id) where organization_id = 3 order by 1) as upserts,
       (select count(*)::int from purchases where organization_id = 3) as purchases`,
  );
  expect(rows).toEqual([
    {
      areMany: true,
      explicit: true,
      customers: true,
      upserts: ['o-1 9900', 'o-2 4500'],
      purchases: 2,
    },
  ]);
}
