import { withConnection } from '../../../src/postgres/connection/pool.ts';
import { time } from '../../measure/rounds.ts';
import { type Summary, summarize } from '../../measure/statistics.ts';
import type { BenchmarkDatabase } from '../../setup/postgres.ts';

type CustomerWrite = { readonly write: string; readonly milliseconds: Summary };

/** The cost of the indexes of lists and searches for writers of customers. */
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
    const measure = async (write: string, statement: string, ids: readonly bigint[]) => {
      const times: number[] = [];
      for (const id of ids) {
        times.push((await time(() => connection.query(statement, [id]))).wall);
      }
      measured.push({ write, milliseconds: summarize(times) });
    };
    const ids = Array.from({ length: rounds }, () => rows.map(({ id }) => id)).flat();
    for (const [name, statement] of Object.entries(singleWrites)) {
      await measure(`one customer with 3 segments and 2 tags: ${name}`, statement, ids);
    }
    for (const [name, statement] of Object.entries(bulkWrites)) {
      await measure(`half of all customers: ${name}`, statement, [organizationId]);
      await connection.query('vacuum');
    }
    return measured;
  });
}

/** Writes to one customer. */
const singleWrites = {
  'the amounts':
    'update customers set updated_at = now(), total_orders = total_orders + 1, total_spent_in_cents = total_spent_in_cents + 100 where id = $1',
  'the name': `update customers set updated_at = now(), name = name || ' J' where id = $1`,
  'a column in no order or search':
    'update customers set total_orders = total_orders + 1 where id = $1',
};

const half = 'customers.organization_id = $1 and customers.id % 2 = 0';
/** Writes to half of the customers of an organization. */
const bulkWrites = {
  'the amounts, in one update': `update customers set updated_at = now(), total_spent_in_cents = total_spent_in_cents + 100 where ${half}`,
  'a column in no order or search, in one update': `update customers set total_orders = total_orders + 1 where ${half}`,
  'a new tag': `with tag as (insert into tags (organization_id, name) values ($1, 'new') returning id)
     insert into customer_tags (organization_id, tag_id, customer_id)
     select $1, tag.id, customers.id from tag, customers where ${half}`,
};
