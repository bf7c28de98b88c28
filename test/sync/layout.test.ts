import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { firstAvailable } from '../../src/engines/first-available.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { currentFile } from '../../src/purchase-store/current.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { addPurchases, type PublishedShop, verifiedTest } from '../support/verified-shop.ts';

/** Counts the purchases of an organization. */
const countWith =
  (engine: PurchaseEngine) =>
  async ({ organization }: PublishedShop) => {
    const { result } = await engine.stats(organization, { filters: {}, groupLimit: 1 });
    return Number(result.purchaseCount);
  };

const it = verifiedTest
  /** The engine over files alone. */
  .extend('files', async ({ published }, { onCleanup }) => {
    const engine = await createTestDuckDBEngine(published.directory);
    onCleanup(engine.close);
    return engine;
  })
  /** The engine of an API that starts: Postgres answers what files cannot. */
  .extend('either', async ({ published: { database, directory } }, { onCleanup }) => {
    const engine = firstAvailable(
      await createTestDuckDBEngine(directory),
      createPostgresEngine(database.pool),
    );
    onCleanup(engine.close);
    return engine;
  })
  /** Follows changes, until the returned function is called. */
  .extend('follow', ({ published }) => () => {
    const stop = new AbortController();
    const following = published.follow(stop.signal);
    return async () => {
      stop.abort();
      await following;
    };
  });

/** Replaces the files of an organization by those of version 5, whose names and descriptions differ. */
function writeVersion5({ folder, organization }: PublishedShop): void {
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  const [base, file] = ['base-0a1b2c.duckdb', '1792000000000000-3f-1.duckdb'];
  const names = [base, file, 'live.duckdb', 'live.duckdb.wal', 'OWNER'];
  for (const name of names) writeFileSync(join(folder, name), 'version 5');
  writeFileSync(join(folder, 'STATUS'), JSON.stringify({ activity: 'following' }));
  const watermark = { snapshot: '700:700:', token: '', asOf: '1792000000000000' };
  const published = { layoutVersion: 5, file, base, purchases: 20, bytes: 18, ...watermark };
  const source = { source: `1/1/${organization}`, fingerprint: '1 a b' };
  writeFileSync(currentFile(folder), JSON.stringify({ ...published, ...source }));
}

describe('files of version 5', () => {
  it('are rebuilt when the worker starts, and Postgres answers meanwhile', {
    tags: ['slow'],
  }, async ({ published: shop, files, either, follow }) => {
    await addPurchases(shop, 20);
    await shop.sync();
    expect(await countWith(files)(shop)).toBe(20);
    writeVersion5(shop);
    expect(await files.version(shop.organization)).toBeNull();
    expect(await countWith(either)(shop)).toBe(20);
    await addPurchases(shop, 5);
    expect(await countWith(either)(shop)).toBe(25);

    const stop = follow();
    while ((await files.version(shop.organization)) === null) {
      expect(await countWith(either)(shop)).toBe(25);
      await sleep(5);
    }
    expect(await countWith(files)(shop)).toBe(25);
    await stop();
    const { base, log } = shop.current();
    expect(readdirSync(shop.folder).sort()).toEqual(['CURRENT', base, log]);
    expect(await shop.verify()).toMatchObject({ state: 'equal', purchases: 25 });
  });
});
