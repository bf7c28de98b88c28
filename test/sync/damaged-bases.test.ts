import { describe, expect } from 'vitest';
import {
  addPurchases,
  keepFolder,
  openPublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

const update = (assignment: string) => (id: bigint) =>
  `update purchase set ${assignment} where id = ${id}`;

/** Damage of a base with a hundred purchases of `addPurchases`. `id` is the one in the middle. */
const damages: readonly [string, statement: (id: bigint) => string, differing: number][] = [
  ['an amount', update('purchase_value_in_cents = purchase_value_in_cents + 1'), 1],
  ['a missing purchase', (id) => `delete from purchase where id = ${id}`, 1],
  ['a duplicate purchase', (id) => `insert into purchase from purchase where id = ${id}`, 1],
  [
    'a purchase that Postgres does not have',
    (id) => `insert into purchase select * replace (900000 as id) from purchase where id = ${id}`,
    1,
  ],
  [
    'exchanged amounts of two purchases',
    (id) =>
      `update purchase set purchase_value_in_cents = 2 * 1000 + 2 * 50 + 1 - purchase_value_in_cents
       where id in (${id}, ${id + 1n})`,
    2,
  ],
  ['exchanged customers', () => 'update customer set key = 1 - key where key < 2', 67],
  ['another customer', update('customer_key = (customer_key + 1) % 3'), 1],
  ['a duplicate customer', () => 'insert into customer from customer where key = 0', 34],
  [
    'another value in a dictionary',
    () => `update label_utm_source set value = 'sauce 3' where value = 'source 3'`,
    7,
  ],
  [
    'a missing entry of a dictionary',
    () => `delete from label_utm_source where value = 'source 3'`,
    7,
  ],
  [
    'a duplicate key of a dictionary',
    () => `insert into label_platform select min(key), 'elsewhere' from label_platform`,
    50,
  ],
  ['a label that is absent', update('platform_key = 0'), 1],
  ['a creation in another month', update('created_at = created_at + interval 3 month'), 2],
  ['an infinite creation', update(`created_at = 'infinity'`), 2],
  ['a quarter of an hour', update('created_quarter_hour = created_quarter_hour + 1'), 1],
  [
    'an update one microsecond later',
    update('updated_at = updated_at + interval 1 microsecond'),
    1,
  ],
  [
    'empty texts in place of NULL',
    () => `update purchase set coupons = '' where coupons is null`,
    80,
  ],
  ['NULL in place of a text', update('order_number = null'), 1],
  [
    'a text whose first character is in another column',
    update('order_id_on_integration_platform = order_number[1], order_number = order_number[2:]'),
    1,
  ],
  ['no purchases', () => 'delete from purchase', 100],
];

/** Damage that changes statistics, although each purchase is equal to that of Postgres. */
const contradictions: readonly [string, statement: string, reason: string][] = [
  [
    'a dictionary has a value twice',
    `insert into label_platform select max(key) + 1, 'shopify' from label_platform`,
    'the dictionaries of platform are damaged',
  ],
  [
    'a dictionary lacks the key of purchases without this label',
    'update purchase set utm_term_key = 7 where id % 10 = 1',
    'the dictionaries of utm_term are damaged',
  ],
  [
    'purchases name another previous purchase',
    'update purchase set previous_quarter_hour = previous_quarter_hour - 1 where id % 10 = 1',
    'the order of 10 purchases in the base is wrong',
  ],
];

const it = verifiedTest
  /** A published base of a hundred purchases, which a test may damage. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop }) => {
    const published = openPublishedShop(database, directory, shop.organizationId);
    const ids = await addPurchases(published, 100);
    await published.sync();
    return { ...published, ids, id: ids[50] as bigint };
  })
  .extend('hundred', ({ undamaged }, { onCleanup }) => {
    onCleanup(keepFolder(undamaged));
    return undamaged;
  });

describe('a verification of a damaged base', { tags: ['slow'] }, () => {
  it.for(damages)(
    'counts the purchases that differ: %s',
    async ([_, statement, differing], { hundred }) => {
      await hundred.damage(statement(hundred.id));
      const state = 'differs';
      expect(await hundred.verify({ partRows: 40 })).toMatchObject({ state, differing });
    },
  );

  it.for(contradictions)('finds that %s', async ([_, statement, reason], { hundred }) => {
    await hundred.damage(statement);
    expect(await hundred.verify()).toMatchObject({ state: 'unreadable', reason });
  });

  it('names some purchases that differ, in all parts', async ({ hundred: { ids, ...hundred } }) => {
    const deleted = [ids[17], ids[51]];
    await hundred.damage(`delete from purchase where id in (${deleted})`);
    expect(await hundred.verify({ partRows: 40 })).toMatchObject({
      purchases: 100,
      differing: 2,
      examples: deleted,
    });
  });

  it('names a single purchase if all were created at the same instant', async ({ published }) => {
    const ids = await addPurchases(published, 24);
    await published.database.pool.query(
      `update purchases set created_at = '2025-06-01' where organization_id = $1`,
      [published.organization],
    );
    await published.sync();
    const id = ids[15] as bigint;
    await published.damage(`update purchase set order_number = 'x' where id = ${id}`);
    expect(await published.verify({ partRows: 8 })).toMatchObject({
      purchases: 24,
      differing: 1,
      examples: [id],
    });
  });

  it('does not read purchases one by one if there are far too many', async ({ published }) => {
    await addPurchases(published, 2);
    await published.sync();
    await published.damage('insert into purchase select purchase.* from purchase, range(30000)');
    expect(await published.verify()).toMatchObject({
      state: 'differs',
      purchases: 2,
      differing: 60_000,
      examples: [],
    });
  });
});
