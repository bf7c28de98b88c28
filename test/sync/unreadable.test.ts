import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { addOrganization } from '../support/shop.ts';
import { addPurchases, createVerifiedShop, type VerifiedShop } from '../support/verified-shop.ts';

// Where DuckDB's blocks begin, and how large each is.
const firstBlock = 3 * 4096;
const blockBytes = 256 * 1024;

describe('verifying what is published', () => {
  let shop: VerifiedShop;
  beforeEach(async () => {
    shop = await createVerifiedShop();
    await addPurchases(shop, 50);
    await shop.sync();
  });
  afterEach(() => shop.close());

  const corruptions: [string, (path: string) => void | Promise<void>][] = [
    ['whose blocks are overwritten', (path) => edit(path, (bytes) => bytes.fill(7, firstBlock))],
    ['whose head is overwritten', (path) => edit(path, (bytes) => bytes.fill(7, 0, firstBlock))],
    ['with one bit of each block turned over', (path) => edit(path, turnBits)],
    ['that ends in the middle', (path) => truncateSync(path, readFileSync(path).length / 2)],
    ['that is empty', (path) => truncateSync(path)],
    ['that is no database', (path) => writeFileSync(path, 'a'.repeat(100_000))],
    ['that is gone', (path) => rmSync(path)],
    ['that nothing names', (path) => writeFileSync(currentFile(dirname(path)), '{')],
    ["that is another organization's", (path) => borrowFile(path)],
  ];

  const ofDelta: typeof corruptions = [
    ...corruptions.filter(([name]) => !name.includes('one bit')),
    ['that is older than CURRENT says', () => putBackOlder()],
  ];
  const cases = [
    ...corruptions.map(([name, corrupt]) => ['base', name, corrupt] as const),
    ...ofDelta.map(([name, corrupt]) => ['delta', name, corrupt] as const),
  ];

  it.each(cases)('says of a %s %s that it cannot be read', async (file, _, corrupt) => {
    const path = file === 'base' ? shop.basePath() : shop.deltaPath();
    await corrupt(path);
    const verification = await shop.verify();
    expect(verification).toMatchObject({ state: 'unreadable', differences: [] });
    expect(verification.reason).toContain(dirname(path));
    // DuckDB is none the worse for it.
    const other = await addOrganization(shop.database.pool);
    expect(await shop.verify({ organizationId: other })).toMatchObject({
      state: 'not published',
    });
  });

  function edit(path: string, change: (bytes: Buffer) => void): void {
    const bytes = readFileSync(path);
    change(bytes);
    writeFileSync(path, bytes);
  }

  function turnBits(bytes: Buffer): void {
    for (let at = firstBlock + 1000; at < bytes.length; at += blockBytes) {
      bytes[at] = (bytes[at] ?? 0) ^ 1;
    }
  }

  async function borrowFile(path: string): Promise<void> {
    const lender = await addOrganization(shop.database.pool);
    await shop.sync();
    const folder = organizationDirectory(shop.directory, lender);
    const { file, base } = readPublished(folder) as PublishedGeneration;
    const name = path === shop.basePath() ? base : file;
    writeFileSync(path, readFileSync(join(folder, name)));
  }

  async function putBackOlder(): Promise<void> {
    const older = readFileSync(shop.deltaPath());
    await shop.database.pool.query('delete from purchases where id % 2 = 0');
    await shop.sync();
    writeFileSync(shop.deltaPath(), older);
  }
});
