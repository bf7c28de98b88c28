import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { test } from '../support/fixtures.ts';
import { addMembers, addRow } from '../support/rows.ts';

// A search, and a filter of a tag's customers by totals, scan a part of an order, and may then use an index.
// The result must equal that of comparing every row. There are more customers than the scan reads.

const customersEach = 4_000;
const names = [
  'Ana Barbosa',
  'JOSÉ da Conceição',
  'Zoe\u0308',
  "D'Ávila \\ Söhne",
  '100% a%b _c_ --- ..',
  '日本語 株式会社',
  '山田',
  'Иван Жуков',
  '👩‍👧 😀😀',
  'Straße ﬁn １２３',
  "''':*&|!<->",
  ' ',
  '\t\n',
  'a\x1eb\x1fc',
];
const words = ['Silva', 'Souza', 'zq', '7', 'x@y', '%', "'", '\\', '語', 'é', '🙂', ''];
let tagId: bigint;
let ids: bigint[];

const it = test
  /** The result of comparing every row. */
  .extend(
    'foundByComparing',
    ({ database, shop }) =>
      async ({ text, sort, limit, after, isTagged, minOrders, boughtUntil }: Search) => {
        const key = columns[sort];
        const { rows } = await database.pool.query<{ id: bigint }>(
          `select id from customers
     where organization_id = $1
       and ($2::text is null or (search_text || '' like search_pattern($2)
         and regexp_replace(search_form($2), '[[:space:]\\x1f]', '', 'g') <> ''))
       and ($6::bigint is null or total_orders >= $6)
       and ($7::timestamptz is null or last_purchase_date <= $7)
       and ($3::bigint is null
         or (${key}, id) < (select ${key}, id from customers where id = $3))
       and ($4::bigint is null
         or id in (select customer_id from customer_tags where tag_id = $4))
     order by ${key} desc, id desc limit $5`,
          [
            shop.organizationId,
            text ?? null,
            after === undefined ? null : ids[after],
            isTagged ? tagId : null,
            limit,
            minOrders ?? null,
            boughtUntil ?? null,
          ],
        );
        return rows.map(({ id }) => encodeId('customer', id));
      },
  )
  .extend(
    'foundBySearching',
    ({ get }) =>
      async ({ text, sort, limit, after, isTagged, minOrders, boughtUntil }: Search) => {
        const parameters = new URLSearchParams({ limit: String(limit) });
        if (text !== undefined) parameters.set('q', text);
        if (minOrders !== undefined) parameters.set('total_orders_min', String(minOrders));
        if (boughtUntil !== undefined) parameters.set('last_purchase_until', boughtUntil);
        if (sort !== 'created') parameters.set('sort', sort);
        if (after !== undefined) {
          parameters.set('starting_after', encodeId('customer', ids[after] as bigint));
        }
        if (isTagged) parameters.set('tag_id', encodeId('tag', tagId));
        const response = await get(`/v1/customers?${parameters}`);
        expect(response.statusCode, response.body).toBe(200);
        return response.json().data.map(({ id }: { id: string }): string => id);
      },
  );

it.beforeAll(async ({ database, shop, otherShop }) => {
  const { pool } = database;
  for (const organization of [otherShop.organizationId, shop.organizationId]) {
    await pool.query(
      `insert into customers
         (organization_id, created_at, updated_at, total_spent_in_cents, total_orders,
           last_purchase_date, name, email, phone)
       select $1, '2024-01-01'::timestamptz + n / 3 * interval '1 minute',
         '2025-01-01'::timestamptz + n * 7919 % 3001 * interval '1 minute', n * 31 % 50,
         n * 6007 % 4001 / 1000 * (n / 2000),
         case when n % 5 > 0 then '2025-01-01'::timestamptz + n * 31 % 89 * interval '1 day' end,
         case when n % 50 = 0 then ($2::text[])[1 + n / 50 % $3]
           else ($4::text[])[1 + n * 13 % $5] || ' ' || ($4::text[])[1 + n * 7 / 5 % $5] end,
         case when n % 3 > 0 then 'mail' || n || '@correio.example' end,
         case when n % 4 > 0 then '+5511' || 900000000 + n * 4409 % 1000003 end
       from generate_series(1, $6::int) as n`,
      [organization, names, names.length, words, words.length, customersEach],
    );
  }
  const organization_id = shop.organizationId;
  const { rows } = await pool.query<{ id: bigint }>(
    'select id from customers where organization_id = $1 order by id',
    [organization_id],
  );
  ids = rows.map(({ id }) => id);
  tagId = await addRow(pool, 'tags', { organization_id, name: 'some' });
  const some = ids.filter((_, index) => index % 3 !== 1);
  await addMembers(pool, 'tag', organization_id, tagId, some);
  await pool.query('analyze');
});

const columns = {
  created: 'created_at',
  updated: 'updated_at',
  total_spent: 'total_spent_in_cents',
} as const;

type Search = {
  readonly text?: string;
  readonly sort: keyof typeof columns;
  readonly limit: number;
  readonly after?: number;
  readonly isTagged: boolean;
  readonly minOrders?: number;
  readonly boughtUntil?: string;
};

/** Parts of stored texts in any case and normalization form, and other texts of the same characters. */
function searchTexts(): fc.Arbitrary<string> {
  const stored = fc.constantFrom(
    ...names,
    ...words,
    'Silva Souza',
    'mail77@correio.example',
    '+5511900004409',
  );
  const part = fc
    .tuple(stored, fc.nat(20), fc.integer({ min: 1, max: 30 }))
    .map(([text, from, length]) => [...text].slice(from, from + length).join(''));
  const change = fc.constantFrom<(text: string) => string>(
    (text) => text,
    (text) => text.toUpperCase(),
    (text) => text.normalize('NFD'),
    (text) => text.toLowerCase(),
  );
  const signs = [...new Set([...names, ...words].flatMap((text) => [...text]))];
  const made = fc.array(fc.constantFrom(...signs), { minLength: 1, maxLength: 8 });
  return fc
    .oneof(
      { weight: 3, arbitrary: fc.tuple(part, change).map(([text, to]) => to(text)) },
      { weight: 1, arbitrary: made.map((characters) => characters.join('')) },
    )
    .filter((text) => text.length > 0);
}

describe('a search', () => {
  it('finds what comparing every customer finds, in the same order, from any cursor', {
    tags: ['slow'],
  }, async ({ foundByComparing, foundBySearching }) => {
    const search = fc.record(
      {
        text: searchTexts(),
        sort: fc.constantFrom(...(Object.keys(columns) as (keyof typeof columns)[])),
        limit: fc.integer({ min: 1, max: 12 }),
        isTagged: fc.boolean(),
        after: fc.nat(customersEach - 1),
        minOrders: fc.nat(5),
        boughtUntil: fc
          .integer({ min: 1, max: 89 })
          .map((day) => new Date(Date.UTC(2025, 0, day)).toISOString()),
      },
      { requiredKeys: ['sort', 'limit', 'isTagged'] },
    ) as fc.Arbitrary<Search>;
    await fc.assert(
      fc.asyncProperty(search, async (given) => {
        expect(await foundBySearching(given)).toEqual(await foundByComparing(given));
      }),
      { numRuns: 400 },
    );
  });

  it('finds control characters', async ({ foundByComparing, foundBySearching }) => {
    for (const text of ['\x1e', 'a\x1eb', '\x1eb\x1fc']) {
      const given = { text, sort: 'updated', limit: 5, isTagged: false } as const;
      const found = await foundBySearching(given);
      expect(found.length).toBeGreaterThan(0);
      expect(found).toEqual(await foundByComparing(given));
    }
  });

  it.for([
    ['a combining accent', '\u0301'],
    ['combining accents and a space', '\u0301 \u0308'],
    ['a space', ' '],
    ['a tab and a line feed', '\t\n'],
    ['a no-break space', '\u00a0'],
    ['an ideographic space', '\u3000'],
    ['a zero-width space', '\u200b'],
    ['a byte order mark', '\ufeff'],
    ['the separator of fields', '\x1f'],
  ] as const)(
    'finds nothing for a text without a visible character: %s',
    async ([_name, text], { foundBySearching }) => {
      for (const sort of ['created', 'total_spent'] as const) {
        for (const isTagged of [false, true]) {
          expect(await foundBySearching({ text, sort, limit: 5, isTagged })).toEqual([]);
        }
      }
    },
  );

  it('stores and finds texts of any length', async ({ database, shop, foundBySearching }) => {
    const name = Array.from({ length: 60_000 }, (_, index) =>
      String.fromCodePoint(0x4e00 + ((index * 7919) % 20_000)),
    ).join('');
    const organization_id = shop.organizationId;
    const created_at = '2020-01-01T00:00:00Z';
    const id = await addRow(database.pool, 'customers', {
      organization_id,
      name,
      created_at,
    });
    const text = name.slice(1_000, 1_200);
    const given = { text, sort: 'created', limit: 5, isTagged: false } as const;
    expect(await foundBySearching(given)).toEqual([encodeId('customer', id)]);
  });
});
