import { type Connection, withConnection } from '../../../src/postgres/pool.ts';
import { type Summary, summarize } from '../../measure/statistics.ts';
import type { BenchmarkDatabase } from '../../setup/postgres.ts';

export type CustomerWrite = { readonly write: string; readonly milliseconds: Summary };

/** What keeping lists and searches quick costs those who write customers. */
export async function measureCustomerWrites(
  { pool }: BenchmarkDatabase,
  organizationId: bigint,
  rounds: number,
): Promise<CustomerWrite[]> {
  return withConnection(pool, async (connection) => {
    const { rows } = await connection.query<{ id: bigint }>(
      `select id from customers where organization_id = $1
         and (select count(*) from segment_customers where customer_id = id) = 3
         and (select count(*) from customer_tags where customer_id = id) = 2
       order by id * 7919 % 1000003 limit 200`,
      [organizationId],
    );
    const measured: CustomerWrite[] = [];
    for (const [name, change] of Object.entries(singleChanges)) {
      const times: number[] = [];
      for (let round = 0; round < rounds; round += 1) {
        for (const { id } of rows) times.push(await timeOf(connection, change, [id]));
      }
      measured.push({
        write: `one customer with 3 segments and 2 tags: ${name}`,
        milliseconds: summarize(times),
      });
    }
    for (const [name, change] of Object.entries(bulkChanges)) {
      const times = [await timeOf(connection, change, [organizationId])];
      measured.push({ write: `half of all customers: ${name}`, milliseconds: summarize(times) });
      await connection.query('vacuum');
    }
    return measured;
  });
}

const singleChanges = {
  'the amounts':
    'update customers set updated_at = now(), total_orders = total_orders + 1, total_spent_in_cents = total_spent_in_cents + 100 where id = $1',
  'the name': `update customers set updated_at = now(), name = name || ' J' where id = $1`,
  'a column in no order or search':
    'update customers set total_orders = total_orders + 1 where id = $1',
};

const half = 'id in (select id from customers where organization_id = $1 and id % 2 = 0)';
const bulkChanges = {
  'the amounts, in one update': `update customers set updated_at = now(), total_spent_in_cents = total_spent_in_cents + 100 where ${half}`,
  'a column in no order or search, in one update': `update customers set total_orders = total_orders + 1 where ${half}`,
  'a tag put on them': `with tag as (insert into tags (organization_id, name) values ($1, 'new') returning id)
     insert into customer_tags (organization_id, tag_id, customer_id)
     select $1, tag.id, customers.id from tag, customers where ${half.replace('id in', 'customers.id in')}`,
};

async function timeOf(connection: Connection, text: string, values: unknown[]): Promise<number> {
  const startedAt = performance.now();
  await connection.query(text, values);
  return performance.now() - startedAt;
}
