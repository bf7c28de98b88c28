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

/** Of an organization in which nothing changes: no new file takes the damaged one's place. */
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
  /** The API writes few purchases, and a process of their own writes many. */
  const exportPaths = ['?format=ndjson&min_value_in_cents=3000', '?format=csv'].map(
    (query) => `/v1/purchases/export${query}`,
  );
  const ask = async (path: string) => {
    const response = await (api as TestApi).get(path, secret);
    expect(response.statusCode, response.body).toBe(200);
    return response.body;
  };
  const askAll = () => Promise.all(paths.map(ask));
  /** The lines of each export in one order: exports have none. */
  const exportAll = async () => {
    const files = [];
    for (const path of exportPaths) files.push((await ask(path)).split('\n').sort());
    return files;
  };

  /** Asks until a file is served that the worker has published since. */
  const untilRebuilt = async (
    duckdb: { version: TestApi['purchases']['version'] },
    file: string,
  ) => {
    for (;;) {
      await askAll();
      const version = await duckdb.version(shop.organization);
      if (version !== null && !file.endsWith(version.name)) return;
      await sleep(20);
    }
  };

  it('is rebuilt, wherever a bit is flipped, and every request is answered meanwhile', async () => {
    const { purchases } = await startApi();
    const expected = await askAll();
    const expectedExports = await exportAll();
    await api?.close();
    await purchases.close();
    following = shop.follow(stop.signal);
    const healthy = readFileSync(shop.basePath());
    let rebuilt = 0;
    let round = 0;
    // Beyond the headers, of which there are two: one of them may be damaged unnoticed.
    for (let place = 12_288 + 8; place < healthy.length; place += healthy.length >> 3) {
      const file = shop.basePath();
      const bytes = readFileSync(file);
      bytes[place] = (bytes[place] ?? 0) ^ 4;
      writeFileSync(file, bytes);
      const started = await startApi();
      round += 1;
      // Whatever is asked first finds the damage.
      if (round % 2 === 0) expect(await exportAll()).toEqual(expectedExports);
      expect(await askAll()).toEqual(expected);
      if ((await started.duckdb.version(shop.organization)) === null) {
        await untilRebuilt(started.duckdb, file);
        expect(await askAll()).toEqual(expected);
        rebuilt += 1;
        // A worker rebuilds what is damaged again and again only once in a while.
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
    ['is cut off', (file: string) => truncateSync(file, 20_000)],
    ['is empty', (file: string) => truncateSync(file, 0)],
    [
      'is named by an empty CURRENT',
      (file: string) => writeFileSync(currentFile(dirname(file)), ''),
    ],
    [
      'is named by a CURRENT that is no JSON',
      (file: string) => writeFileSync(currentFile(dirname(file)), 'x'),
    ],
  ])('and %s is rebuilt; status can be read meanwhile', async (_name, damage) => {
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
