import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { readPages } from '../support/paging.ts';
import { addRow } from '../support/rows.ts';

const it = test.extend('found', ({ api, shop }) => async (text: string): Promise<unknown[]> => {
  const url = `/v1/customers?q=${encodeURIComponent(text)}`;
  const items = (await readPages(api, shop.secret, url, 2)).flat();
  return items.map(({ name, email }) => name ?? email ?? null).reverse();
});

it.beforeAll(async ({ database, shop, otherShop }) => {
  const customers = [
    { name: 'José Conceição', email: 'ze@correio.example', phone: '+5511900000001' },
    { name: 'JOSEFINA STRAßE', email: 'josefina@carta.example', phone: '+5521900000002' },
    { name: 'Zoe\u0308 Decomposed', email: null, phone: null },
    { name: '100% off_er \\ back', email: null, phone: null },
    { name: '100 off-er / back', email: null, phone: null },
    { name: 'Иван', email: null, phone: null },
    { name: '日本語', email: null, phone: null },
    { name: null, email: 'only@mail.example', phone: null },
    { name: null, email: null, phone: null },
  ];
  for (const customer of customers) {
    const row = { organization_id: shop.organizationId, ...customer };
    await addRow(database.pool, 'customers', row);
  }
  await addRow(database.pool, 'customers', {
    organization_id: otherShop.organizationId,
    name: 'José Foreign',
  });
});

const jose = 'José Conceição';
const josefina = 'JOSEFINA STRAßE';

describe('the search of customers', () => {
  it.for([
    ['jose', [jose, josefina]],
    ['JOSÉ', [jose, josefina]],
    ['conceicao', [jose]],
    ['CONCEIC\u0327A\u0303O', [jose]],
    ['strasse', [josefina]],
    ['zoë', ['Zoe\u0308 Decomposed']],
    ['ZOE', ['Zoe\u0308 Decomposed']],
    ['иван', ['Иван']],
    ['日本', ['日本語']],
    ['日本語', ['日本語']],
  ] as const)('ignores case and accents: %s', async ([text, names], { found }) => {
    expect(await found(text)).toEqual(names);
  });

  it.for([
    ['correio', [jose]],
    ['ZE@COR', [jose]],
    ['+5511', [jose]],
    ['900000002', [josefina]],
    ['mail.example', ['only@mail.example']],
    ['.example', [jose, josefina, 'only@mail.example']],
  ] as const)('searches name, email and phone: %s', async ([text, names], { found }) => {
    expect(await found(text)).toEqual(names);
  });

  it.for([
    ['%', ['100% off_er \\ back']],
    ['_', ['100% off_er \\ back']],
    ['\\', ['100% off_er \\ back']],
    ['100%', ['100% off_er \\ back']],
    ['100% off_er \\ b', ['100% off_er \\ back']],
    // A full-width form also matches the ASCII character.
    ['100\uff05', ['100% off_er \\ back']],
    ['off\uff3fer', ['100% off_er \\ back']],
    ['off%er', []],
    ['jos%', []],
    ['j_se', []],
    ['josé\\', []],
  ] as const)('takes %s literally', async ([text, names], { found }) => {
    expect(await found(text)).toEqual(names);
  });

  it.for([
    ['j', [jose, josefina]],
    ['Ç', [jose, josefina, 'Zoe\u0308 Decomposed', '100% off_er \\ back', '100 off-er / back']],
    ['zo', ['Zoe\u0308 Decomposed']],
    ['zq', []],
    ['@', [jose, josefina, 'only@mail.example']],
    ['---', []],
  ] as const)('finds short texts and symbols: %s', async ([text, names], { found }) => {
    expect(await found(text)).toEqual(names);
  });

  it('does not match across fields', async ({ found }) => {
    expect(await found('conceicaoze')).toEqual([]);
    expect(await found('conceicao ze')).toEqual([]);
    expect(await found('conceicao\nze')).toEqual([]);
    expect(await found('example+55')).toEqual([]);
  });
});

describe('a search for a plus that is not encoded', () => {
  it.for([
    ['+5511', [jose]],
    ['+55+119', [jose]],
    ['ze+news@', ['ze+news@correio.example']],
    ['news@correio', ['ze+news@correio.example']],
    ['josé+conceição', [jose]],
  ] as const)(
    'finds phones and addresses, and words otherwise: %s',
    async ([text, names], { database, shop, get }) => {
      const email = 'ze+news@correio.example';
      await addRow(database.pool, 'customers', { organization_id: shop.organizationId, email });
      const response = await get(`/v1/customers?q=${encodeURI(text)}`);
      await database.pool.query('delete from customers where email = $1', [email]);
      const { data } = response.json<{ data: { name?: string; email?: string }[] }>();
      expect(data.map(({ name, email }) => name ?? email)).toEqual(names);
    },
  );
});

describe('the schema of the search', () => {
  it('computes the same with an empty search path', async ({ database }) => {
    const connection = await database.pool.connect();
    try {
      await connection.query('begin');
      await connection.query(`set local search_path = ''`);
      const { rows } = await connection.query(
        `update public.customers set name = 'ÁRVORE' where name = 'Иван'
         returning search_text = 'arvore' || chr(31) || chr(31) as is_right,
           public.search_form('Çá') as folded`,
      );
      expect(rows).toEqual([{ is_right: true, folded: 'ca' }]);
      await connection.query('reindex index public.customers_by_phone_end');
      await connection.query('analyze public.customers');
    } finally {
      await connection.query('rollback');
      connection.release();
    }
  });
});
