import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect } from 'vitest';
import { currentFile } from '../../src/purchase-store/format/current.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import {
  addVariedPurchases,
  keepFolder,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

/** The offset of DuckDB's first block, and the size of a block. */
const firstBlock = 3 * 4096;
const blockBytes = 64 * 1024;

const update = (assignment: string) => (id: bigint) =>
  `update purchase set ${assignment} where id = ${id}`;

/** Damage of a base with a hundred purchases of `addVariedPurchases`. `id` is the one in the middle. */
const differences: readonly [string, statement: (id: bigint) => string, differing: number][] = [
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

const edit = (path: string, change: (bytes: Buffer) => void): void => {
  const bytes = readFileSync(path);
  change(bytes);
  writeFileSync(path, bytes);
};

const flipBits = (bytes: Buffer): void => {
  for (let at = firstBlock + 1000; at < bytes.length; at += blockBytes) {
    bytes[at] = (bytes[at] ?? 0) ^ 1;
  }
};

type Damage = (path: string, files: { readonly other: PublishedShop }) => void;

const damagesOfFile: readonly [string, Damage][] = [
  ['is truncated', (path) => truncateSync(path, (readFileSync(path).length >> 1) + 7)],
  ['is not named by CURRENT', (path) => writeFileSync(currentFile(dirname(path)), '{')],
  ['has other content', (path) => writeFileSync(path, 'a'.repeat(100_000))],
  ['is missing', (path) => rmSync(path)],
];
const damagesOfBase: readonly [string, Damage][] = [
  ...damagesOfFile,
  ['is empty', (path) => truncateSync(path)],
  ['has overwritten blocks', (path) => edit(path, (bytes) => bytes.fill(7, firstBlock))],
  ['has an overwritten header', (path) => edit(path, (bytes) => bytes.fill(7, 0, firstBlock))],
  ['has a flipped bit in each block', (path) => edit(path, flipBits)],
  [
    'belongs to another organization',
    (path, { other }) => writeFileSync(path, readFileSync(other.basePath())),
  ],
];
const damagesOfLog: readonly [string, Damage][] = [
  ...damagesOfFile,
  ['lacks its last byte', (path) => truncateSync(path, readFileSync(path).length - 1)],
  ['has text after its last batch', (path) => writeFileSync(path, 'x', { flag: 'a' })],
];
const cases = [
  ...damagesOfBase.map(([name, damage]) => ['base', name, damage] as const),
  ...damagesOfLog.map(([name, damage]) => ['log', name, damage] as const),
];

const it = verifiedTest
  /** A published base of a hundred purchases, and a log with two others. Another organization is published, too. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop, otherShop }) => {
    const published = openPublishedShop(database, directory, shop.organizationId);
    const other = openPublishedShop(database, directory, otherShop.organizationId);
    const ids = await addVariedPurchases(published, 100);
    await addVariedPurchases(other, 3);
    await published.sync([published.organization, other.organization]);
    const addOne = async () => {
      const customer_id = await addCustomer(database.pool, published.organization);
      await addPurchase(database.pool, published.organization, { customer_id });
      await published.sync();
    };
    await addOne();
    const olderLog = readFileSync(published.logPath());
    await addOne();
    return { ...published, other, olderLog, ids, id: ids[50] as bigint };
  })
  /** The files of the organization, which a test may damage. */
  .extend('files', ({ undamaged }, { onCleanup }) => {
    onCleanup(keepFolder(undamaged));
    return undamaged;
  });

describe('a verification of damaged files', { tags: ['slow'] }, () => {
  it.for(cases)(
    'reports the file if the %s %s, and other organizations stay readable',
    async ([file, name, damage], { files }) => {
      const path = file === 'base' ? files.basePath() : files.logPath();
      damage(path, files);
      const verification = await files.verify();
      expect(verification).toMatchObject({ state: 'unreadable', differing: 0 });
      const named = name === 'is not named by CURRENT' ? currentFile(files.folder) : path;
      expect(verification.reason).toContain(`${named} cannot be read`);
      expect(await files.other.verify()).toMatchObject({ state: 'equal' });
    },
  );

  it('finds that the log lacks its last batch', async ({ files }) => {
    writeFileSync(files.logPath(), files.olderLog);
    expect(await files.verify()).toMatchObject({ state: 'unreadable' });
  });

  it.for(differences)(
    'counts the purchases that differ: %s',
    async ([_, statement, differing], { files }) => {
      await files.damage(statement(files.id));
      const state = 'differs';
      expect(await files.verify({ rangeRows: 40 })).toMatchObject({ state, differing });
    },
  );

  it.for(contradictions)('finds that %s', async ([_, statement, reason], { files }) => {
    await files.damage(statement);
    expect(await files.verify()).toMatchObject({ state: 'unreadable', reason });
  });

  it('names some purchases that differ, in all parts', async ({ files: { ids, ...files } }) => {
    const deleted = [ids[17], ids[51]];
    await files.damage(`delete from purchase where id in (${deleted})`);
    expect(await files.verify({ rangeRows: 40 })).toMatchObject({
      purchases: 102,
      differing: 2,
      examples: deleted,
    });
  });

  it('names a single purchase if all were created at the same instant', async ({ published }) => {
    const ids = await addVariedPurchases(published, 24);
    await published.database.pool.query(
      `update purchases set created_at = '2025-06-01' where organization_id = $1`,
      [published.organization],
    );
    await published.sync();
    const id = ids[15] as bigint;
    await published.damage(`update purchase set order_number = 'x' where id = ${id}`);
    expect(await published.verify({ rangeRows: 8 })).toMatchObject({
      purchases: 24,
      differing: 1,
      examples: [id],
    });
  });

  it('does not read purchases one by one if there are far too many', async ({ published }) => {
    await addVariedPurchases(published, 2);
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
