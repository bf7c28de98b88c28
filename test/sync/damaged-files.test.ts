import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { firstAvailable } from '../../src/engines/first-available.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { currentFile } from '../../src/purchase-store/published-generation.ts';
import { takeWorkerRequests } from '../../src/purchase-store/worker-requests.ts';
import { replaceFileSync } from '../../src/replace-file.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus } from '../../sync/status/status.ts';
import { createTestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { forgeBitpackedColumn } from '../support/forged-block.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { addPurchases, openPublishedShop, verifiedTest } from '../support/verified-shop.ts';

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

const it = verifiedTest
  /** Starts an API that reads from Postgres if the published file is damaged. */
  .extend('startReader', async ({ published }, { onCleanup }) => {
    const { pool } = published.database;
    const { secret } = await addKey(pool, published.organization);
    let close = async () => {};
    onCleanup(() => close());
    return async () => {
      const duckdb = await createTestDuckDBEngine(published.directory, { onError: () => {} });
      const purchases = firstAvailable(duckdb, createPostgresEngine(pool));
      const api = await createTestApi(pool, published.directory, {
        services: testServices(pool, purchases),
        log: createRecordedLog(),
      });
      close = async () => {
        await api.close();
        await purchases.close();
        close = async () => {};
      };
      const get = async (path: string) => {
        const response = await api.get(path, secret);
        expect(response.statusCode, response.body).toBe(200);
        return response.body;
      };
      const getAll = () => Promise.all(paths.map(get));
      return {
        duckdb,
        getAll,
        /** The sorted lines of each export: an export has no order. */
        async exportAll() {
          const files = [];
          for (const path of exportPaths) files.push((await get(path)).split('\n').sort());
          return files;
        },
        isDamageFound: async () => (await duckdb.version(published.organization)) === null,
        /** Sends requests until the API serves another file than `file`. */
        async untilRebuilt(file: string) {
          for (;;) {
            await getAll();
            const version = await duckdb.version(published.organization);
            if (version !== null && !file.endsWith(version.name)) return;
            await sleep(20);
          }
        },
        close: () => close(),
      };
    };
  })
  /** Starts a worker, and ends the previous one. */
  .extend('startWorker', ({ published }, { onCleanup }) => {
    let stop = new AbortController();
    let following = Promise.resolve();
    const end = async () => {
      stop.abort();
      await following;
    };
    onCleanup(end);
    return async () => {
      await end();
      stop = new AbortController();
      following = published.follow(stop.signal);
    };
  });

// Nothing changes in the organization, so no new generation replaces the damaged one.
describe('a published file that is damaged', { timeout: 120_000 }, () => {
  it('with a valid checksum invalidates the DuckDB instance of the API, which replaces the instance', {
    tags: ['slow'],
  }, async ({ published, startReader, startWorker }) => {
    const { pool } = published.database;
    const other = await addOrganization(pool);
    await addPurchase(pool, other, { customer_id: await addCustomer(pool, other) });
    await addPurchases(published, 400);
    await published.sync([published.organization, other]);
    const file = published.basePath();
    const spillDirectory = join(published.directory, 'spill', 'forge');
    await forgeBitpackedColumn(file, 'purchase_value_in_cents', spillDirectory);
    const { duckdb, getAll, exportAll, untilRebuilt } = await startReader();
    const statsOf = (organization: bigint) =>
      duckdb.stats(organization, { filters: {}, groupLimit: 1 });
    const { asOf } = await statsOf(other);
    await expect(statsOf(published.organization)).rejects.toMatchObject({
      name: 'NoGenerationError',
      cause: { message: expect.stringContaining('Invalid bitpacking mode') },
    });
    const served = await vi.waitFor(() => statsOf(other), 10_000);
    expect(served.result.purchaseCount).toBe(1n);
    expect(served.asOf).toBeGreaterThanOrEqual(asOf);
    // The damaged base is not read again: the other organization is served all the time.
    const fromPostgres = await getAll();
    expect(await duckdb.version(published.organization)).toBeNull();
    await statsOf(other);

    const exported = await exportAll();
    await startWorker();
    await untilRebuilt(file);
    expect(await getAll()).toEqual(fromPostgres);
    expect(await exportAll()).toEqual(exported);
  });

  it('is not reported if the worker has published and removed files meanwhile', async ({
    published,
    onTestFinished,
  }) => {
    const { directory, organization } = published;
    await addPurchases(published, 3);
    await published.sync();
    const duckdb = await createTestDuckDBEngine(directory, { onError: () => {} });
    onTestFinished(() => duckdb.close());
    const current = currentFile(published.folder);
    const content = readFileSync(current, 'utf8');
    replaceFileSync(current, content.replace(/"file":"\d+/, '"file":"1'));
    // The engine reads CURRENT before it first waits.
    const version = duckdb.version(organization);
    replaceFileSync(current, content);
    expect(await version).toBeNull();
    while ((await duckdb.version(organization)) === null) await sleep(10);
    expect(takeWorkerRequests(directory, 'damaged', () => true).size).toBe(0);
  });

  it('is rebuilt if a bit of any block is flipped, and every request gets the correct response meanwhile', {
    tags: ['slow'],
  }, async ({ published, startReader, startWorker }) => {
    await addPurchases(published, 2_200);
    await published.sync();
    const reader = await startReader();
    const expected = await reader.getAll();
    const expectedExports = await reader.exportAll();
    await reader.close();
    await startWorker();
    const { length } = readFileSync(published.basePath());
    let rebuilt = 0;
    let round = 0;
    // After the two headers, because damage of one of them may stay undetected.
    for (let place = 12_288 + 8; place < length; place += length >> 3) {
      const file = published.basePath();
      const bytes = readFileSync(file);
      bytes[place] = (bytes[place] ?? 0) ^ 4;
      writeFileSync(file, bytes);
      const { getAll, exportAll, isDamageFound, untilRebuilt, close } = await startReader();
      round += 1;
      // Every kind of request detects the damage.
      if (round % 2 === 0) expect(await exportAll()).toEqual(expectedExports);
      expect(await getAll()).toEqual(expected);
      if (await isDamageFound()) {
        await untilRebuilt(file);
        expect(await getAll()).toEqual(expected);
        rebuilt += 1;
        // A worker rebuilds an organization once in ten minutes at most.
        await startWorker();
      }
      await close();
    }
    expect(rebuilt).toBeGreaterThan(0);
  });

  it('with a valid checksum invalidates the DuckDB instance of the worker, which starts another one', {
    tags: ['slow'],
  }, async ({ published, program }) => {
    const { pool } = published.database;
    const other = openPublishedShop(
      published.database,
      published.directory,
      await addOrganization(pool),
    );
    await addPurchases(other, 1);
    await addPurchases(published, 400);
    await published.sync([published.organization, other.organization]);
    const file = published.basePath();
    const fileOfOther = other.deltaPath();
    const spillDirectory = join(published.directory, 'spill', 'forge');
    await forgeBitpackedColumn(file, 'purchase_value_in_cents', spillDirectory);
    const worker = program('sync/main.ts', ['run']);
    await pool.query('update purchases set purchase_value_in_cents = purchase_value_in_cents + 1');
    await vi.waitFor(() => expect(published.basePath()).not.toBe(file), 60_000);
    await vi.waitFor(() => expect(other.deltaPath()).not.toBe(fileOfOther), 60_000);
    await worker.end('SIGTERM');
    expect(worker.output()).toContain('DuckDB failed and must restart');
    expect(await published.verify()).toMatchObject({ state: 'equal' });
    expect(await other.verify()).toMatchObject({ state: 'equal' });
  });

  it.for([
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
  ] as const)(
    'is rebuilt if it %s, and the status can be read meanwhile',
    { tags: ['slow'] },
    async ([_, damage], { published, startReader, startWorker }) => {
      const { database, directory } = published;
      await addPurchases(published, 50);
      await published.sync();
      await startWorker();
      const file = published.basePath();
      damage(file);
      const organizations = await listOrganizations(database.pool);
      const folderId = await dataFolderId(directory);
      const status = await readStatus(database.pool, directory, folderId, organizations);
      expect(status.organizations).toHaveLength(organizations.length);
      const { untilRebuilt } = await startReader();
      await untilRebuilt(file);
    },
  );
});
