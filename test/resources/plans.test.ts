import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import {
  customersEach,
  groups,
  type LargeShop,
  openLargeShop,
  type PlanNode,
} from './large-shop.ts';

// The plans of the statements of the API on large organizations: the index, and the number of rows
// that are read.

let shop: LargeShop;
beforeAll(async () => {
  shop = await openLargeShop();
}, 120_000);
afterAll(() => shop.close());

const kindsOf = (nodes: readonly PlanNode[]) => nodes.map((node) => node['Node Type']);
const indexesOf = (nodes: readonly PlanNode[]) => nodes.flatMap((node) => node['Index Name'] ?? []);

/** The maximum number of rows that a node of a plan has read. */
const rowsRead = (nodes: readonly PlanNode[]) =>
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
  ])('%s scans %s without a sort, and reads only one page after any cursor', async (url, index) => {
    const separator = url.includes('?') ? '&' : '?';
    let cursor = '';
    for (let page = 0; page < 4; page += 1) {
      const nodes = await shop.planOf(`${url}${separator}limit=100${cursor}`);
      expect(indexesOf(nodes)).toContain(index);
      expect(kindsOf(nodes).filter((kind) => /Seq Scan|Sort|Hash/.test(kind))).toEqual([]);
      expect(rowsRead(nodes)).toBe(101);
      const { data } = (
        await shop.api.get(`${url}${separator}limit=100${cursor}`, shop.secret)
      ).json();
      cursor = `&starting_after=${data.at(-1).id}`;
    }
  });

  it('reads no more rows for a deep page than for the first page', async () => {
    for (const [sort, column, index] of [
      ['', 'created_at', 'customers_by_creation'],
      ['sort=updated&', 'updated_at', 'customers_by_update'],
      ['sort=total_spent&', 'total_spent_in_cents', 'customers_by_total_spent'],
    ]) {
      const { rows } = await shop.database.query(
        `select id from customers where organization_id = 1
         order by ${column} desc, id desc offset $1 limit 1`,
        [customersEach - 200],
      );
      const nodes = await shop.planOf(
        `/v1/customers?${sort}starting_after=${encodeId('customer', rows[0].id)}`,
      );
      expect(kindsOf(nodes).filter((kind) => /Seq Scan|Sort/.test(kind))).toEqual([]);
      expect(rowsRead(nodes)).toBe(26);
      const scan = nodes.find((node) => node['Index Name'] === index);
      expect(scan?.['Index Cond']).toMatch(/ROW\(/);
    }
  });

  it('takes one statement, and another one for a cursor', async () => {
    await shop.planOf('/v1/customers');
    // Another one reads the instant.
    const ofList = () =>
      shop
        .statements()
        .filter(({ text }) => text.includes('customers') && !text.includes('mapping_state'));
    expect(ofList()).toHaveLength(1);
    const { data } = (await shop.api.get('/v1/customers?limit=1', shop.secret)).json();
    await shop.planOf(`/v1/customers?limit=100&starting_after=${data[0].id}`);
    expect(ofList()).toHaveLength(2);
  });
});

describe('a filtered list of customers', () => {
  it.each([
    ['email=Customer77@mail.example', 'customers_by_email', 30],
    ['is_subscribed=false', 'customers_by_creation', 200],
    ['is_subscribed=true&sort=total_spent', 'customers_by_total_spent', 100],
    [
      'created_since=2024-02-01T00:00:00Z&created_until=2024-02-02T00:00:00Z',
      'customers_by_creation',
      30,
    ],
    ['updated_since=2025-03-01T00:00:00Z&sort=updated', 'customers_by_update', 30],
  ])('%s uses %s and reads at most %i rows', async (query, index, maxRows) => {
    const nodes = await shop.planOf(`/v1/customers?${query}`);
    expect(indexesOf(nodes)).toContain(index);
    expect(kindsOf(nodes)).not.toContain('Seq Scan');
    expect(rowsRead(nodes)).toBeLessThanOrEqual(maxRows);
  });
});

describe('a list of customers by their totals', () => {
  /** The scans of customers by an index, other than by id for the rows of the page. */
  const scansOf = (nodes: readonly PlanNode[]) =>
    nodes.filter(({ 'Index Name': index = '' }) => /^customers_by_(?!id_)/.test(index));

  it.each(['', '&sort=updated', '&sort=total_spent'])(
    'reads no row of the table that does not match%s',
    async (sort) => {
      for (const query of [
        'total_orders_min=998&last_purchase_until=2024-12-01T00:00:00Z',
        'total_orders_min=2&total_orders_max=2&is_subscribed=true',
        'total_spent_min_in_cents=15000&total_spent_max_in_cents=15005&last_purchase_since=2024-06-01T00:00:00Z',
        'first_purchase_since=2024-06-01T00:00:00Z',
      ]) {
        const nodes = await shop.planOf(`/v1/customers?${query}${sort}`);
        expect(kindsOf(nodes)).not.toContain('Seq Scan');
        const fromTable = nodes.filter((node) => node['Node Type'] !== 'Index Only Scan');
        expect(scansOf(nodes), query).toHaveLength(1);
        expect(rowsRead(fromTable), query).toBeLessThanOrEqual(30);
        expect(scansOf(nodes)[0]?.['Heap Fetches'] ?? 0).toBe(0);
      }
    },
  );

  it('of a group reads its links, and the index of customers if few of the first links match', async () => {
    for (const [relation, links] of [
      ['tag', 'customer_tags'],
      ['segment', 'segment_customers'],
    ] as const) {
      const id = encodeId(relation, groups.common.id);
      const of = `/v1/customers?limit=2&${relation}_id=${id}`;
      const common = await shop.planOf(`${of}&total_orders_min=500`);
      expect(indexesOf(common)).toContain(`${links}_by_creation`);
      expect(scansOf(common)).toEqual([]);
      expect(rowsRead(common)).toBeLessThanOrEqual(3 * 90);
      const rare = await shop.planOf(`${of}&total_orders_min=999`);
      expect(scansOf(rare).map((node) => node['Node Type'])).toEqual(['Index Only Scan']);
      expect(kindsOf(rare)).not.toContain('Seq Scan');
    }
  });
});

const orders = [
  ['', 'created_at', 'creation'],
  ['sort=updated', 'updated_at', 'update'],
  ['sort=total_spent', 'total_spent_in_cents', 'total_spent'],
] as const;

describe.each(Object.keys(groups) as (keyof typeof groups)[])('the %s customers', (name) => {
  const { id } = groups[name];
  const ofTag = `/v1/customers?tag_id=${encodeId('tag', id)}&`;
  const ofSegment = `/v1/customers?segment_id=${encodeId('segment', id)}&`;
  const inSegment = `/v1/segments/${encodeId('segment', id)}/customers?`;

  it.each([
    ['of a tag', ofTag, 'customer_tags', orders],
    ['of a segment', ofSegment, 'segment_customers', orders],
    ['in a segment', inSegment, 'segment_customers', [orders[0], orders[2]]],
  ] as const)(
    '%s are read from an index of the links, page by page',
    async (_of, url, links, itsOrders) => {
      for (const [sort, column, by] of itsOrders) {
        for (const position of [undefined, 1, 6_666, customersEach - 50]) {
          const cursor =
            position === undefined
              ? ''
              : `&starting_after=${await shop.cursorAt(column, position)}`;
          const nodes = await shop.planOf(`${url}${sort}${cursor}`);
          expect(indexesOf(nodes)).toContain(`${links}_by_${by}`);
          expect(kindsOf(nodes).filter((kind) => /Seq Scan|Bitmap|Sort|Hash/.test(kind))).toEqual(
            [],
          );
          expect(rowsRead(nodes)).toBeLessThanOrEqual(26);
          const scan = nodes.find((node) => node['Index Name'] === `${links}_by_${by}`);
          if (position !== undefined) expect(scan?.['Index Cond']).toMatch(/ROW\(/);
        }
      }
    },
  );
});

describe('a search of customers', () => {
  const maxSearchedRows = 26 * 20;
  const maxScannedRows = 26 * 90;

  it.each(['silva', 'mail.example', 's', 'si', '@', 'souza'])(
    'scans the index of the order if the text is common: %s',
    async (text) => {
      for (const [sort, column, by] of orders) {
        for (const position of [1, customersEach / 2]) {
          const cursor = `&starting_after=${await shop.cursorAt(column, position)}`;
          const nodes = await shop.planOf(`/v1/customers?q=${text}&${sort}${cursor}`);
          expect(indexesOf(nodes)).toContain(`customers_by_${by}`);
          expect(indexesOf(nodes)).not.toContain('customers_by_search_grams');
          expect(rowsRead(nodes)).toBeLessThanOrEqual(maxScannedRows);
        }
      }
    },
  );

  it.each([
    ...['customer777@', 'CUSTOMER777', 'd41d8cd9', 'souza zq'],
    ...['zq', '---', '--', 'a%b', '%', '#', '_', 'q\x1fc', '日本語', '語', '😀'],
  ])('uses the search index if the text is rare, for any characters: %s', async (text) => {
    for (const [sort] of orders) {
      const nodes = await shop.planOf(`/v1/customers?q=${encodeURIComponent(text)}&${sort}`);
      expect(indexesOf(nodes)).toContain('customers_by_search_grams');
      expect(kindsOf(nodes)).not.toContain('Seq Scan');
      expect(rowsRead(nodes)).toBeLessThanOrEqual(maxSearchedRows);
    }
  });

  it('uses the search index if the text is rarer than the first scan expects', async () => {
    const nodes = await shop.planOf('/v1/customers?q=lima');
    expect(indexesOf(nodes)).toContain('customers_by_search_grams');
    expect(kindsOf(nodes)).not.toContain('Seq Scan');
    expect(rowsRead(nodes)).toBe(maxScannedRows);
  });

  it('scans only the rest of the list near its end', async () => {
    for (const [sort, column, by] of orders) {
      const cursor = `&starting_after=${await shop.cursorAt(column, customersEach - 200)}`;
      const nodes = await shop.planOf(`/v1/customers?q=zq&${sort}${cursor}`);
      expect(indexesOf(nodes)).toContain(`customers_by_${by}`);
      expect(indexesOf(nodes)).not.toContain('customers_by_search_grams');
      expect(rowsRead(nodes)).toBeLessThanOrEqual(200);
    }
  });

  it("never reads another organization's customers", async () => {
    const nodes = await shop.planOf('/v1/customers?q=customer777');
    const search = nodes.find((node) => node['Index Name'] === 'customers_by_search_grams');
    expect(search?.['Index Cond']).toMatch(/organization_id = .* AND .*search_grams/);
  });
});

describe('a search of phones', () => {
  const sampledRows = 26 * 20;

  it.each([
    ...['phone=%2B5511900004409', 'phone=11900004409', 'phone=%2B351%205511900004409'],
    ...['phone=0000-4409', 'phone=04409', 'q=9%200000-4409'],
  ])('uses the indexes of digits if few match: %s', async (query) => {
    const nodes = await shop.planOf(`/v1/customers?${query}`);
    expect(indexesOf(nodes)).toContain('customers_by_phone_grams');
    expect(kindsOf(nodes)).not.toContain('Seq Scan');
    expect(rowsRead(nodes)).toBeLessThanOrEqual(sampledRows);
  });

  it('scans the index of the order if many match', async () => {
    const nodes = await shop.planOf('/v1/customers?phone=5511');
    expect(indexesOf(nodes)).not.toContain('customers_by_phone_grams');
    expect(rowsRead(nodes)).toBeLessThanOrEqual(sampledRows);
  });
});

describe('a search of order numbers', () => {
  it('uses their index', async () => {
    await shop.database.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select 1, (select min(id) from customers where organization_id = 1), 100, n
       from generate_series(1, 5000) as n`,
    );
    await shop.database.query('analyze purchases');
    const nodes = await shop.planOf('/v1/purchases/search?order_number=1001');
    expect(indexesOf(nodes)).toContain('purchases_by_order_number');
    expect(kindsOf(nodes)).not.toContain('Seq Scan');
  });
});

describe('the search of segments', () => {
  it('uses its index', async () => {
    for (const text of ['c4ca4238', 'zq']) {
      const nodes = await shop.planOf(`/v1/segments?q=${text}`);
      expect(indexesOf(nodes)).toContain('segments_by_search_grams');
    }
  });
});
