import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect } from 'vitest';
import { currentFile } from '../../src/purchase-store/published-generation.ts';
import {
  addPurchases,
  keepFolder,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

/** The offset of DuckDB's first block, and the size of a block. */
const firstBlock = 3 * 4096;
const blockBytes = 256 * 1024;

const it = verifiedTest
  /** Two published organizations. The first one has an older delta, too. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop, otherShop }) => {
    const own = openPublishedShop(database, directory, shop.organizationId);
    const other = openPublishedShop(database, directory, otherShop.organizationId);
    await addPurchases(own, 50);
    await other.sync();
    await own.sync();
    const olderDelta = readFileSync(own.deltaPath());
    await database.pool.query('delete from purchases where id % 2 = 0');
    await own.sync();
    return { ...own, other, olderDelta };
  })
  /** The files of the first organization, which a test may damage. */
  .extend('files', ({ undamaged }, { onCleanup }) => {
    onCleanup(keepFolder(undamaged));
    return undamaged;
  });

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

type Damage = (
  path: string,
  files: { readonly other: PublishedShop; readonly olderDelta: Buffer },
) => void;

const damages: readonly [string, Damage][] = [
  ['has overwritten blocks', (path) => edit(path, (bytes) => bytes.fill(7, firstBlock))],
  ['has an overwritten header', (path) => edit(path, (bytes) => bytes.fill(7, 0, firstBlock))],
  ['is truncated', (path) => truncateSync(path, readFileSync(path).length / 2)],
  ['is empty', (path) => truncateSync(path)],
  ['is not a database', (path) => writeFileSync(path, 'a'.repeat(100_000))],
  ['is missing', (path) => rmSync(path)],
];
const damagesOfBase: readonly [string, Damage][] = [
  ...damages,
  // Few blocks of a small delta are in use.
  ['has a flipped bit in each block', (path) => edit(path, flipBits)],
  ['is not named by CURRENT', (path) => writeFileSync(currentFile(dirname(path)), '{')],
  [
    'belongs to another organization',
    (path, { other }) => writeFileSync(path, readFileSync(other.basePath())),
  ],
];
const damagesOfDelta: readonly [string, Damage][] = [
  ...damages,
  [
    'belongs to another organization',
    (path, { other }) => writeFileSync(path, readFileSync(other.deltaPath())),
  ],
  ['is older than CURRENT says', (path, { olderDelta }) => writeFileSync(path, olderDelta)],
];
const cases = [
  ...damagesOfBase.map(([name, damage]) => ['base', name, damage] as const),
  ...damagesOfDelta.map(([name, damage]) => ['delta', name, damage] as const),
];

describe('a verification', () => {
  it.for(cases)(
    'reports the folder if the %s %s, and other organizations stay readable',
    async ([file, _, damage], { files }) => {
      damage(file === 'base' ? files.basePath() : files.deltaPath(), files);
      const verification = await files.verify();
      expect(verification).toMatchObject({ state: 'unreadable', differences: [] });
      expect(verification.reason).toContain(files.folder);
      expect(await files.other.verify()).toMatchObject({ state: 'equal' });
    },
  );
});
