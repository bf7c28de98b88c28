import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { firstAvailable } from '../../src/engines/first-available.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { currentFile } from '../../src/purchase-store/published-generation.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus } from '../../sync/status/status.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { testServices } from '../support/services.ts';
import { addKey } from '../support/shop.ts';
import { addPurchases, createVerifiedShop, type VerifiedShop } from '../support/verified-shop.ts';

// Nothing changes in the organization, so no new generation replaces the damaged one.
describe('a published file that is damaged', { timeout: 120_000 }, () => {
  let shop: VerifiedShop;
  let api: TestApi | null;
  let stop: AbortController;
  let following: Promise<void>;
  let secret: string;

  beforeEach(async () => {
    shop = await createVerifiedShop();
    await addPurchases(shop, 2_200);
    await shop.sync();
    ({ secret } = await addKey(shop.database.pool, shop.organization));
    stop = new AbortController();
    api = null;
    following = Promise.resolve();
  });
  afterEach(async () => {
    stop.abort();
    await following;
    await api?.close();
    await shop.close();
  });

  const startApi = async () => {
    const duckdb = await createTestDuckDBEngine(shop.directory, { onError: () => {} });
    const purchases = firstAvailable(duckdb, createPostgresEngine(shop.database.pool));
    api = await createTestApi(shop.database.pool, shop.directory, {
      services: testServices(shop.database.pool, purchases),
      log: pino({ level: 'silent' }),
    });
    return { purchases, duckdb };
  };
  const paths = [
    '/v1/purchases/stats?group_by=utm_source',
    '/v1/purchases/stats?platform=bling&group_by=day',
    '/v1/purchases?limit=100',
    '/v1/purchases?status=any&min_value_in_cents=1',
  ];
  /** The API writes a small export itself. A separate process writes a large one. */
  const exportPaths = ['?format=ndjson&min_value_in_cents=3000', '?format=csv'].map(
    (query) => `/v1/purchases/export${query}`,
  );
  const get = async (path: string) => {
    const response = await (api as TestApi).get(path, secret);
    expect(response.statusCode, response.body).toBe(200);
    return response.body;
  };
  const getAll = () => Promise.all(paths.map(get));
  /** The sorted lines of each export: an export has no order. */
  const exportAll = async () => {
    const files = [];
    for (const path of exportPaths) files.push((await get(path)).split('\n').sort());
    return files;
  };

  /** Sends requests until the API serves another file than `file`. */
  const untilRebuilt = async (
    duckdb: { version: TestApi['purchases']['version'] },
    file: string,
  ) => {
    for (;;) {
      await getAll();
      const version = await duckdb.version(shop.organization);
      if (version !== null && !file.endsWith(version.name)) return;
      await sleep(20);
    }
  };

  it('is rebuilt if a bit of any block is flipped, and every request gets the correct response meanwhile', async () => {
    const { purchases } = await startApi();
    const expected = await getAll();
    const expectedExports = await exportAll();
    await api?.close();
    await purchases.close();
    following = shop.follow(stop.signal);
    const healthy = readFileSync(shop.basePath());
    let rebuilt = 0;
    let round = 0;
    // After the two headers, because damage of one of them may stay undetected.
    for (let place = 12_288 + 8; place < healthy.length; place += healthy.length >> 3) {
      const file = shop.basePath();
      const bytes = readFileSync(file);
      bytes[place] = (bytes[place] ?? 0) ^ 4;
      writeFileSync(file, bytes);
      const started = await startApi();
      round += 1;
      // Every kind of request detects the damage.
      if (round % 2 === 0) expect(await exportAll()).toEqual(expectedExports);
      expect(await getAll()).toEqual(expected);
      if ((await started.duckdb.version(shop.organization)) === null) {
        await untilRebuilt(started.duckdb, file);
        expect(await getAll()).toEqual(expected);
        rebuilt += 1;
        // A worker rebuilds an organization once in ten minutes at most.
        stop.abort();
        await following;
        stop = new AbortController();
        following = shop.follow(stop.signal);
      }
      await api?.close();
      await started.purchases.close();
    }
    api = null;
    expect(rebuilt).toBeGreaterThan(0);
  });

  it.each([
    ['is truncated', (file: string) => truncateSync(file, 20_000)],
    ['is empty', (file: string) => truncateSync(file, 0)],
    [
      'is named by an empty CURRENT',
      (file: string) => writeFileSync(currentFile(dirname(file)), ''),
    ],
    [
      'is named by a CURRENT that is not JSON',
      (file: string) => writeFileSync(currentFile(dirname(file)), 'x'),
    ],
  ])('is rebuilt if it %s, and the status can be read meanwhile', async (_name, damage) => {
    following = shop.follow(stop.signal);
    const file = shop.basePath();
    damage(file);
    const organizations = await listOrganizations(shop.database.pool);
    const status = await readStatus(
      shop.database.pool,
      shop.directory,
      await dataFolderId(shop.directory),
      organizations,
    );
    expect(status.organizations).toHaveLength(1);
    const { purchases, duckdb } = await startApi();
    await untilRebuilt(duckdb, file);
    await purchases.close();
  });
});
