import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect } from 'vitest';
import { currentFile } from '../../src/purchase-store/format/current.ts';
import {
  addPurchases,
  keepFolder,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

/** The offset of DuckDB's first block, and the size of a block. */
const firstBlock = 3 * 4096;
const blockBytes = 64 * 1024;

const it = verifiedTest
  /** Two published organizations. The log of the first one has two batches. */
  .extend('undamaged', { scope: 'file' }, async ({ database, directory, shop, otherShop }) => {
    const own = openPublishedShop(database, directory, shop.organizationId);
    const other = openPublishedShop(database, directory, otherShop.organizationId);
    await addPurchases(own, 50);
    await addPurchases(other, 50);
    await other.sync([own.organization, other.organization]);
    await database.pool.query('delete from purchases where id % 4 = 0');
    await own.sync();
    const olderLog = readFileSync(own.logPath());
    await database.pool.query('delete from purchases where id % 4 = 2');
    await own.sync();
    return { ...own, other, olderLog };
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

type Damage = (path: string, files: { readonly other: PublishedShop }) => void;

const damages: readonly [string, Damage][] = [
  ['is truncated', (path) => truncateSync(path, (readFileSync(path).length >> 1) + 7)],
  ['is not named by CURRENT', (path) => writeFileSync(currentFile(dirname(path)), '{')],
  ['has other content', (path) => writeFileSync(path, 'a'.repeat(100_000))],
  ['is missing', (path) => rmSync(path)],
];
const damagesOfBase: readonly [string, Damage][] = [
  ...damages,
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
  ...damages,
  ['lacks its last byte', (path) => truncateSync(path, readFileSync(path).length - 1)],
  ['has text after its last batch', (path) => writeFileSync(path, 'x', { flag: 'a' })],
];
const cases = [
  ...damagesOfBase.map(([name, damage]) => ['base', name, damage] as const),
  ...damagesOfLog.map(([name, damage]) => ['log', name, damage] as const),
];

describe('a verification', () => {
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

  it('reports the purchases that differ if the log lacks its last batch', async ({ files }) => {
    writeFileSync(files.logPath(), files.olderLog);
    expect(await files.verify()).toMatchObject({ state: 'differs', differing: 13 });
  });
});
