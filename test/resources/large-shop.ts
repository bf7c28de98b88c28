import { expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** The number of customers of each of the two organizations. */
export const customersEach = 20_000;
const otherRows = {
  segments: 10_000,
  tags: 1_000,
  attributes: 1_000,
  flows: 1_000,
  email_campaigns: 1_000,
  template_campaigns: 1_000,
} as const;

/** Tags and segments with the customers that `members` selects. The oldest customer has `n = 1`. */
export const groups = {
  common: { id: 1n, members: 'n % 2 = 0' },
  rare: { id: 2n, members: 'n % 1000 = 0' },
  middling: { id: 3n, members: 'n % 20 = 0' },
  oldest: { id: 4n, members: `n <= ${customersEach / 2}` },
  neverBuyers: { id: 5n, members: 'n % 5 = 1' },
} as const;

/** Two organizations that are large enough for Postgres to prefer indexes. */
export type LargeShop = {
  readonly database: Database;
  readonly api: TestApi;
  readonly secret: string;
  /** The executed plan nodes of the last statement of a request, without key checks. */
  planOf(url: string): Promise<PlanNode[]>;
  /** The statements of the last request of `planOf`. */
  statements(): readonly Statement[];
  /** The id of the customer at a position of an order, from the highest value. */
  cursorAt(column: string, position: number): Promise<string>;
  close(): Promise<void>;
};
type Statement = { text: string; values: unknown[] };

export type PlanNode = {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Heap Fetches'?: number;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly PlanNode[];
};

export async function openLargeShop(): Promise<LargeShop> {
  const database = await createTestDatabase();
  const directory = await temporaryDirectory();
  let statements: Statement[] = [];
  const pool = createPool(database.url, { max: 2, applicationName: 'test' });
  pool.on('connect', (connection) => {
    const query = connection.query.bind(connection) as (...given: unknown[]) => unknown;
    Object.assign(connection, {
      query: (statement: Statement, ...given: unknown[]) => {
        statements.push(statement);
        return query(statement, ...given);
      },
    });
  });
  // The API checks keys, and once a minute records their uses, at any time of a request.
  const api = await createTestApi(pool, directory.path, { keyDatabase: database.pool });
  for (const name of ['Shop', 'Other shop']) {
    await fill(database.pool, await addOrganization(database.pool, name));
  }
  await addLinks(database.pool);
  await database.pool.query('vacuum analyze');
  const { secret } = await addKey(database.pool, 1n);
  return {
    database: database.pool,
    api,
    secret,
    statements: () => statements,
    planOf: async (url) => {
      statements = [];
      const response = await api.get(url, secret);
      expect(response.statusCode, response.body).toBe(200);
      return explain(database.pool, statements.at(-1) as Statement);
    },
    cursorAt: async (column, position) => {
      const { rows } = await database.pool.query(
        `select id from customers where organization_id = 1
         order by ${column} desc, id desc offset $1 limit 1`,
        [position],
      );
      return encodeId('customer', rows[0].id);
    },
    close: async () => {
      await api.close();
      await pool.end();
      await database.drop();
      await directory.remove();
    },
  };
}

async function explain(database: Database, { text, values }: Statement): Promise<PlanNode[]> {
  const { rows } = await database.query({ text: `explain (analyze, format json) ${text}`, values });
  const nodes: PlanNode[] = [];
  const visit = (node: PlanNode) => {
    if (node['Actual Loops'] > 0) nodes.push(node);
    node.Plans?.forEach(visit);
  };
  visit(rows[0]['QUERY PLAN'][0].Plan);
  return nodes;
}

/** Adds rows whose columns do not correlate. */
async function fill(pool: Database, organizationId: bigint): Promise<void> {
  await pool.query(
    `insert into customers
       (organization_id, created_at, updated_at, name, email, phone, total_spent_in_cents, is_subscribed,
         total_orders, last_purchase_date)
     select $1, '2024-01-01'::timestamptz + n * interval '10 minutes',
       '2025-01-01'::timestamptz + n * 7919 % 20011 * interval '9 minutes',
       initcap(md5(n::text))
         || case when n % 10 = 0 then ' Silva' when n % 100 = 3 then ' Lima' else ' Souza' end
         || case when n % 4000 = 1 then ' 日本語 a%b --- zq' else '' end,
       'customer' || n || '@mail.example', '+5511' || 900000000 + n * 4409 % 1000003,
       case when n % 5 = 1 then 0 else 1 + n * 6007 % 15013 end, n % 3 > 0,
       n * 3571 % 4001 % 1000, '2025-01-01'::timestamptz - n * 5437 % 9973 * interval '1 hour'
     from generate_series(1, $2::int) as n`,
    [organizationId, customersEach],
  );
  for (const [table, count] of Object.entries(otherRows)) {
    const hasUpdate = table !== 'tags';
    await pool.query(
      `insert into ${table} (organization_id, name, created_at ${hasUpdate ? ', updated_at' : ''})
       select $1, md5(n::text), '2024-01-01'::timestamptz + n * interval '1 hour'
         ${hasUpdate ? `, '2025-01-01'::timestamptz + n * 7919 % 1013 * interval '1 hour'` : ''}
       from generate_series(1, $2::int) as n`,
      [organizationId, count],
    );
  }
}

async function addLinks(pool: Database): Promise<void> {
  for (const [table, column] of [
    ['customer_tags', 'tag_id'],
    ['segment_customers', 'segment_id'],
  ] as const) {
    for (const { id, members } of Object.values(groups)) {
      await pool.query(
        `insert into ${table} (organization_id, customer_id, ${column})
         select 1, id, $1::bigint
         from (select id, row_number() over (order by created_at) as n
           from customers where organization_id = 1) as numbered
         where ${members}`,
        [id],
      );
    }
  }
}
