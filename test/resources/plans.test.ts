import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { addKey, addOrganization } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// How Postgres answers each list at a size where it matters: which index it walks,
// and how many rows it touches. The statements are those that the API runs.

const customersEach = 20_000;
const otherRows = {
  segments: 10_000,
  tags: 1_000,
  attributes: 1_000,
  flows: 1_000,
  email_campaigns: 1_000,
  template_campaigns: 1_000,
} as const;

let database: TestDatabase;
let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
let api: TestApi;
let secret: string;
let statements: { text: string; values: unknown[] }[] = [];
const ids: Record<'common' | 'rare', bigint> = { common: 1n, rare: 2n };

beforeAll(async () => {
  database = await createTestDatabase();
  directory = await temporaryDirectory();
  const recording: Database = Object.create(database.pool, {
    query: {
      value: (statement: { text: string; values: unknown[] }) => {
        statements.push(statement);
        return database.pool.query(statement);
      },
    },
  });
  api = await createTestApi(recording, directory.path);
  for (const name of ['Shop', 'Other shop']) {
    await fill(await addOrganization(database.pool, name));
  }
  await database.pool.query('vacuum analyze');
  secret = (await addKey(database.pool, 1n)).secret;
}, 120_000);
afterAll(async () => {
  await api.close();
  await database.drop();
  await directory.remove();
});

/** Rows whose columns have nothing to do with each other, as in a shop that has grown. */
async function fill(organizationId: bigint): Promise<void> {
  const { pool } = database;
  await pool.query(
    `insert into customers
       (organization_id, created_at, updated_at, name, email, phone, total_spent_in_cents, is_subscribed)
     select $1, '2024-01-01'::timestamptz + n * interval '10 minutes',
       '2025-01-01'::timestamptz + n * 7919 % 20011 * interval '9 minutes',
       initcap(md5(n::text)) || case when n % 10 = 0 then ' Silva' else ' Souza' end,
       'customer' || n || '@mail.example', '+5511' || 900000000 + n * 4409 % 1000003,
       n * 6007 % 15013, n % 3 > 0
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
  if (organizationId !== 1n) return;
  for (const [table, column] of [
    ['customer_tags', 'tag_id'],
    ['segment_customers', 'segment_id'],
  ] as const) {
    await pool.query(
      `insert into ${table} (organization_id, customer_id, ${column})
       select 1, id, $1::bigint from customers where organization_id = 1 and id % 2 = 0
       union all
       select 1, id, $2::bigint from customers where organization_id = 1 and id % 1000 = 0`,
      [ids.common, ids.rare],
    );
  }
}

type Node = {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Node[];
};

/** The nodes that the last statement of a request was carried out with. */
async function planOf(url: string): Promise<Node[]> {
  statements = [];
  const response = await api.get(url, secret);
  expect(response.statusCode, response.body).toBe(200);
  const statement = statements.at(-1) as (typeof statements)[number];
  const { rows } = await database.pool.query({
    text: `explain (analyze, format json) ${statement.text}`,
    values: statement.values,
  });
  const nodes: Node[] = [];
  const visit = (node: Node) => {
    nodes.push(node);
    node.Plans?.forEach(visit);
  };
  visit(rows[0]['QUERY PLAN'][0].Plan);
  return nodes;
}

const kindsOf = (nodes: readonly Node[]) => nodes.map((node) => node['Node Type']);
const indexesOf = (nodes: readonly Node[]) => nodes.flatMap((node) => node['Index Name'] ?? []);

/** The most rows that any node of a plan read. */
const rowsRead = (nodes: readonly Node[]) =>
  Math.max(
    ...nodes.map(
      (node) =>
        (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'],
    ),
  );

describe('a list without filters', () => {
  it.each([
    ['/v1/customers', 'customers_by_creation'],
    ['/v1/customers?sort=updated', 'customers_by_update'],
    ['/v1/customers?sort=total_spent', 'customers_by_total_spent'],
    ['/v1/segments', 'segments_by_creation'],
    ['/v1/segments?sort=updated', 'segments_by_update'],
    ['/v1/tags', 'tags_by_creation'],
    ['/v1/attributes', 'attributes_by_creation'],
    ['/v1/flows', 'flows_by_update'],
    ['/v1/email-campaigns', 'email_campaigns_by_update'],
    ['/v1/template-campaigns', 'template_campaigns_by_update'],
  ])('%s walks %s, unsorted, and reads a page wherever it begins', async (url, index) => {
    const separator = url.includes('?') ? '&' : '?';
    let cursor = '';
    for (let page = 0; page < 4; page += 1) {
      const nodes = await planOf(`${url}${separator}limit=100${cursor}`);
      expect(indexesOf(nodes)).toContain(index);
      expect(kindsOf(nodes).filter((kind) => /Seq Scan|Sort|Hash/.test(kind))).toEqual([]);
      expect(rowsRead(nodes)).toBe(101);
      const { data } = (await api.get(`${url}${separator}limit=100${cursor}`, secret)).json();
      cursor = `&starting_after=${data.at(-1).id}`;
    }
  });

  it('costs no more deep inside than at its start', async () => {
    for (const [sort, column, index] of [
      ['', 'created_at', 'customers_by_creation'],
      ['sort=updated&', 'updated_at', 'customers_by_update'],
      ['sort=total_spent&', 'total_spent_in_cents', 'customers_by_total_spent'],
    ]) {
      const { rows } = await database.pool.query(
        `select id from customers where organization_id = 1
         order by ${column} desc, id desc offset $1 limit 1`,
        [customersEach - 200],
      );
      const nodes = await planOf(
        `/v1/customers?${sort}starting_after=${encodeId('customer', rows[0].id)}`,
      );
      expect(kindsOf(nodes).filter((kind) => /Seq Scan|Sort/.test(kind))).toEqual([]);
      expect(rowsRead(nodes)).toBe(26);
      const walk = nodes.find((node) => node['Index Name'] === index);
      expect(walk?.['Index Cond']).toMatch(/ROW\(/);
    }
  });

  it('takes one statement, and one more for the cursor', async () => {
    await planOf('/v1/customers');
    expect(statements.filter(({ text }) => text.includes('customers'))).toHaveLength(1);
    const { data } = (await api.get('/v1/customers?limit=1', secret)).json();
    await planOf(`/v1/customers?limit=100&starting_after=${data[0].id}`);
    expect(statements.filter(({ text }) => text.includes('customers'))).toHaveLength(2);
  });
});

describe('a filtered list of customers', () => {
  const tag = (id: bigint) => `tag_id=${encodeId('tag', id)}`;
  const segment = (id: bigint) => `segment_id=${encodeId('segment', id)}`;
  const customersOf = (id: bigint) => `/v1/segments/${encodeId('segment', id)}/customers`;

  it.each([
    ['/v1/customers?email=Customer77@mail.example', 'customers_by_email', 30],
    ['/v1/customers?phone=900004409', 'customers_by_phone_end', 30],
    ['/v1/customers?phone=0%204409', 'customers_by_phone_end', 50],
    ['/v1/customers?q=customer777@', 'customers_by_search_text', 30],
    ['/v1/customers?q=CUSTOMER777', 'customers_by_search_text', 30],
    ['/v1/customers?q=d41d8cd9&sort=total_spent', 'customers_by_search_text', 30],
    ['/v1/customers?q=silva', 'customers_by_creation', 400],
    ['/v1/customers?q=mail.example', 'customers_by_creation', 30],
    ['/v1/customers?q=s', 'customers_by_creation', 30],
    ['/v1/customers?q=si', 'customers_by_creation', 400],
    ['/v1/customers?is_subscribed=false', 'customers_by_creation', 200],
    ['/v1/customers?is_subscribed=true&sort=total_spent', 'customers_by_total_spent', 100],
    [
      '/v1/customers?created_since=2024-02-01T00:00:00Z&created_until=2024-02-02T00:00:00Z',
      'customers_by_creation',
      30,
    ],
    ['/v1/customers?updated_since=2025-03-01T00:00:00Z&sort=updated', 'customers_by_update', 30],
    [`/v1/customers?${tag(ids.common)}`, 'customers_by_creation', 100],
    [`/v1/customers?${tag(ids.rare)}`, 'customer_tags_by_tag', 30],
    [`/v1/customers?${tag(ids.rare)}&sort=total_spent`, 'customer_tags_by_tag', 30],
    [`/v1/customers?${segment(ids.common)}&sort=updated`, 'customers_by_update', 100],
    [`/v1/customers?${segment(ids.rare)}`, 'segment_customers_pkey', 30],
    [`${customersOf(ids.common)}?sort=total_spent`, 'customers_by_total_spent', 100],
    [`${customersOf(ids.rare)}?sort=total_spent`, 'segment_customers_pkey', 30],
    [customersOf(ids.common), 'customers_by_creation', 100],
    [customersOf(ids.rare), 'segment_customers_pkey', 30],
  ])('%s uses %s and reads at most %i rows', async (url, index, mostRows) => {
    const nodes = await planOf(url);
    expect(indexesOf(nodes)).toContain(index);
    expect(
      nodes.filter(
        (node) => node['Node Type'] === 'Seq Scan' && /customer/.test(node['Relation Name'] ?? ''),
      ),
    ).toEqual([]);
    expect(rowsRead(nodes)).toBeLessThanOrEqual(mostRows);
  });

  it.each(['zq', '--', '_', '%25'])(
    'walks its own organization once for a search that no index serves: %s',
    async (text) => {
      for (const [sort, index] of [
        ['', 'customers_by_creation'],
        ['&sort=updated', 'customers_by_update'],
        ['&sort=total_spent', 'customers_by_total_spent'],
      ] as const) {
        const nodes = await planOf(`/v1/customers?q=${text}${sort}`);
        expect(indexesOf(nodes)).toContain(index);
        expect(kindsOf(nodes).filter((kind) => /Seq Scan|Sort/.test(kind))).toEqual([]);
        expect(rowsRead(nodes)).toBeLessThanOrEqual(customersEach);
      }
    },
  );

  it("never reads another organization's customers in a search", async () => {
    const nodes = await planOf('/v1/customers?q=customer777');
    const search = nodes.find((node) => node['Index Name'] === 'customers_by_search_text');
    expect(search?.['Index Cond']).toMatch(/organization_id = .* AND .*search_text/);
  });
});

describe('the search of segments', () => {
  it('uses its index', async () => {
    expect(indexesOf(await planOf('/v1/segments?q=c4ca4238'))).toContain('segments_by_search_text');
  });
});
