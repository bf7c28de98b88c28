import {
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { createFallbackEngine } from '../../src/engines/fallback-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { microsecondsOf } from '../../src/postgres/lists/instants.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { replaceFileSync } from '../../src/process/replace-file.ts';
import { takeDamageReports } from '../../src/purchase-store/damage/damage-reports.ts';
import { currentFile } from '../../src/purchase-store/format/current.ts';
import { newestTick, readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { unfinishedBasePath } from '../../sync/builds/base-file.ts';
import type { Builder } from '../../sync/builds/builder.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus } from '../../sync/status/status.ts';
import { createTestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { forgeBitpackedColumn } from '../support/forged-block.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { expectEqual } from '../support/published.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { follow as followWorker } from '../support/sync.ts';
import {
  addVariedPurchases,
  openPublishedShop,
  type PublishedShop,
  verifiedTest,
} from '../support/verified-shop.ts';

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
  /** Starts an API that reads from Postgres if published files are damaged. */
  .extend('startReader', async ({ published }, { onCleanup }) => {
    const { database, directory, organization, current } = published;
    const { pool } = database;
    const { secret } = await addKey(pool, organization);
    let close = async () => {};
    onCleanup(() => close());
    return async () => {
      const duckdb = await createTestDuckDBEngine(directory, { onError: () => {} });
      const purchases = createFallbackEngine(duckdb, createPostgresEngine(pool));
      const api = await createTestApi(pool, directory, {
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
        get,
        getAll,
        /** The sorted lines of each export: an export has no order. */
        async exportAll() {
          const files = [];
          for (const path of exportPaths) files.push((await get(path)).split('\n').sort());
          return files;
        },
        isDamageFound: async () => (await duckdb.version(organization)) === null,
        /** Sends requests until the API serves other files than those with `log`. */
        async untilRebuilt(log: string) {
          for (;;) {
            await getAll();
            const version = await duckdb.version(organization);
            if (version !== null && !version.name.includes(log)) break;
            await sleep(20);
          }
          expect(current().log).not.toBe(log);
        },
        close: () => close(),
      };
    };
  })
  /** Starts a worker. Returns a function that ends it. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('startWorker', ({}, { onCleanup }) => {
    let stop = new AbortController();
    let following = Promise.resolve();
    const end = async () => {
      stop.abort();
      await following;
    };
    onCleanup(end);
    return async ({ follow }: PublishedShop) => {
      stop = new AbortController();
      following = follow(stop.signal);
      return end;
    };
  });

const flipBit = (path: string, at: number): void => {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 4;
  writeFileSync(path, bytes);
};

/** The first block of a base. Damage of the two headers before it may stay undetected. */
const firstBlock = 12_288 + 8;

type Damage = (shop: PublishedShop) => void;
const damagesOfBase: readonly [string, Damage][] = [
  ['the base is truncated', ({ basePath }) => truncateSync(basePath(), 20_000)],
  ['the base is empty', ({ basePath }) => truncateSync(basePath(), 0)],
];
/** A worker that starts finds these, too. */
const damagesOfFolder: readonly [string, Damage][] = [
  ['the base is missing', ({ basePath }) => rmSync(basePath())],
  ['the log is missing', ({ logPath }) => rmSync(logPath())],
  [
    'the log ends within a batch',
    ({ logPath }) => truncateSync(logPath(), readFileSync(logPath()).length - 10),
  ],
  ['the log lacks its last batch', ({ logPath }) => removeLastBatch(logPath())],
  ['the log is empty', ({ logPath }) => truncateSync(logPath(), 0)],
  ['CURRENT is empty', ({ folder }) => writeFileSync(currentFile(folder), '')],
  ['CURRENT is not JSON', ({ folder }) => writeFileSync(currentFile(folder), 'x')],
  ['CURRENT lacks a field', ({ folder }) => writeFileSync(currentFile(folder), withoutLog(folder))],
];

const removeLastBatch = (path: string): void =>
  truncateSync(path, readFileSync(path).lastIndexOf('\nt\t') + 1);

const withoutLog = (folder: string): string => {
  const content = JSON.parse(readFileSync(currentFile(folder), 'utf8'));
  return JSON.stringify({ ...content, log: undefined });
};

/** Replaces the files by those of version 5, whose names and descriptions differ. */
const writeVersion5: Damage = ({ folder }) => {
  const current = JSON.parse(readFileSync(currentFile(folder), 'utf8'));
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  const file = '1792000000000000-3f-1.duckdb';
  for (const name of [file, 'live.duckdb', 'live.duckdb.wal', 'OWNER', 'STATUS']) {
    writeFileSync(join(folder, name), 'version 5');
  }
  writeFileSync(currentFile(folder), JSON.stringify({ ...current, layoutVersion: 5, file }));
};

/** Publishes a base, and two batches in the log. */
const publishWithLog = async (shop: PublishedShop): Promise<void> => {
  const { database, organization } = shop;
  await addVariedPurchases(shop, 50);
  await shop.sync();
  for (const remainder of [0, 1]) {
    await database.pool.query(
      `update purchases set utm_source = 'changed' where organization_id = $1 and id % 3 = $2`,
      [organization, remainder],
    );
    await shop.sync();
  }
};

describe('published files that are damaged', () => {
  it('with a valid checksum invalidate the DuckDB instance of the API, which replaces the instance', {
    tags: ['slow'],
  }, async ({ published, startReader, startWorker }) => {
    const { pool } = published.database;
    const other = await addOrganization(pool);
    await addPurchase(pool, other, { customer_id: await addCustomer(pool, other) });
    await addVariedPurchases(published, 400);
    await published.sync([published.organization, other]);
    const { log } = published.current();
    const spillDirectory = `${published.directory}/spill/forge`;
    await forgeBitpackedColumn(published.basePath(), 'purchase_value_in_cents', spillDirectory);
    const { duckdb, getAll, exportAll, untilRebuilt } = await startReader();
    const statsOf = (organization: bigint) =>
      readPurchaseStats(duckdb, organization, { filters: {}, groupLimit: 1 });
    const { asOf } = await statsOf(other);
    await expect(statsOf(published.organization)).rejects.toMatchObject({
      name: 'NoGenerationError',
      cause: { message: expect.stringContaining('Invalid bitpacking mode') },
    });
    const served = await vi.waitFor(() => statsOf(other), 120_000);
    expect(served.result.purchaseCount).toBe(1n);
    expect(served.asOf).toBeGreaterThanOrEqual(asOf);
    // The damaged base is not read again: the other organization is served all the time.
    const fromPostgres = await getAll();
    expect(await duckdb.version(published.organization)).toBeNull();
    await statsOf(other);

    const exported = await exportAll();
    await startWorker(published);
    await untilRebuilt(log);
    expect(await getAll()).toEqual(fromPostgres);
    expect(await exportAll()).toEqual(exported);
  });

  it('are not reported if the worker has published and removed files meanwhile', async ({
    published,
    onTestFinished,
  }) => {
    const { directory, organization } = published;
    await addVariedPurchases(published, 3);
    await published.sync();
    const duckdb = await createTestDuckDBEngine(directory, { onError: () => {} });
    onTestFinished(() => duckdb.close());
    const current = currentFile(published.folder);
    const content = readFileSync(current, 'utf8');
    replaceFileSync(current, content.replace(/"log":"log-\w+/, '"log":"log-00'));
    // The engine reads CURRENT before it first waits.
    const version = duckdb.version(organization);
    replaceFileSync(current, content);
    await version;
    while ((await duckdb.version(organization)) === null) await sleep(10);
    expect(takeDamageReports(directory, () => true).size).toBe(0);
  });

  it.for(['base', 'log'] as const)(
    'are rebuilt if a bit of the %s is flipped, and every request gets the correct response meanwhile',
    { tags: ['slow'] },
    async (file, { published: withBase, publishedInLog, startReader, startWorker }) => {
      const published = file === 'base' ? withBase : publishedInLog;
      const path = () => (file === 'base' ? published.basePath() : published.logPath());
      const firstByte = file === 'base' ? firstBlock : 0;
      await addVariedPurchases(published, 2_200);
      await published.sync();
      const reader = await startReader();
      const expected = await reader.getAll();
      const expectedExports = await reader.exportAll();
      await reader.close();
      const { length } = readFileSync(path());
      let rebuilt = 0;
      let round = 0;
      for (let place = firstByte; place < length; place += length >> 3) {
        const { log } = published.current();
        flipBit(path(), place);
        // A worker rebuilds an organization once in ten minutes at most.
        const endWorker = await startWorker(published);
        const { getAll, exportAll, isDamageFound, untilRebuilt, close } = await startReader();
        round += 1;
        // Every kind of request detects the damage.
        if (round % 2 === 0) expect(await exportAll()).toEqual(expectedExports);
        expect(await getAll()).toEqual(expected);
        if ((await isDamageFound()) || published.current().log !== log) {
          await untilRebuilt(log);
          expect(await getAll()).toEqual(expected);
          rebuilt += 1;
        }
        await close();
        await endWorker();
      }
      // The checksums of the log cover all of its bytes. Some blocks of a base are not in use.
      if (file === 'log') expect(rebuilt).toBe(round);
      expect(rebuilt).toBeGreaterThan(0);
    },
  );

  it('with a valid checksum invalidate the DuckDB instance of the worker, which starts another one', {
    tags: ['slow'],
  }, async ({ published, program }) => {
    const { database, directory, organization } = published;
    const { pool } = database;
    const other = openPublishedShop(database, directory, await addOrganization(pool));
    await addVariedPurchases(other, 1);
    await addVariedPurchases(published, 400);
    await published.sync([organization, other.organization]);
    const { base } = published.current();
    const spillDirectory = `${directory}/spill/forge`;
    await forgeBitpackedColumn(published.basePath(), 'purchase_value_in_cents', spillDirectory);
    const worker = program('sync/main.ts', ['run']);
    // So many changes are merged with the base.
    await pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select organization_id, min(id), n from customers, generate_series(1, 20001) as n
       where organization_id = $1 group by organization_id, n`,
      [organization],
    );
    await worker.printed(/the DuckDB instance failed; the worker starts a new one/);
    await vi.waitFor(() => expect(published.current().base).not.toBe(base), 120_000);
    const customer = await addCustomer(pool, other.organization);
    await addPurchase(pool, other.organization, { customer_id: customer });
    await vi.waitFor(async () => {
      expect(await other.verify()).toMatchObject({ purchases: 2, changedSince: 0 });
    }, 120_000);
    await worker.end('SIGTERM');
    expect(await published.verify()).toMatchObject({ state: 'equal', purchases: 20_401 });
  });

  it.for([...damagesOfBase, ...damagesOfFolder])(
    'are rebuilt by a running worker once an API opens them, and queries are answered meanwhile: %s',
    { tags: ['slow'] },
    async ([_, damage], { published, startReader, startWorker }) => {
      const { database, directory, organization } = published;
      await publishWithLog(published);
      const undamaged = await startReader();
      const expected = await undamaged.getAll();
      await undamaged.close();
      await startWorker(published);
      const { log } = published.current();
      damage(published);
      const organizations = await listOrganizations(database.pool);
      const folderId = await dataFolderId(directory);
      const status = await readStatus(database.pool, directory, folderId, organizations);
      expect(status.organizations).toHaveLength(organizations.length);
      const { getAll, untilRebuilt } = await startReader();
      expect(await getAll()).toEqual(expected);
      await untilRebuilt(log);
      await expectEqual(database.pool, directory, organization);
    },
  );

  it.for([...damagesOfFolder, ['the files are of version 5', writeVersion5] as const])(
    'are rebuilt by a worker that starts, without a request to the API, and no others are left: %s',
    { tags: ['slow'] },
    async ([_, damage], { published, startWorker }) => {
      await publishWithLog(published);
      const { log } = published.current();
      damage(published);
      await startWorker(published);
      await vi.waitFor(() => expect(published.current().log).not.toBe(log), 120_000);
      const { base, log: newLog, replacedLogs } = published.current();
      const expected = ['CURRENT', base, newLog, ...replacedLogs.map((each) => each.log)];
      await vi.waitFor(() => {
        expect(expected).toEqual(expect.arrayContaining(readdirSync(published.folder)));
      }, 120_000);
      expect(await published.verify()).toMatchObject({ state: 'equal', purchases: 50 });
    },
  );

  it('are rebuilt if a compaction finds the damage, without a request to the API', {
    tags: ['slow'],
  }, async ({ published: { database, directory, organization }, startWorker }) => {
    const options = { maxPurchasesWithoutBase: 0, maxLogRecords: 30 };
    const published = openPublishedShop(database, directory, organization, options);
    await publishWithLog(published);
    const { log } = published.current();
    // A worker that starts reads the end of the log only.
    flipBit(published.logPath(), 20);
    await startWorker(published);
    await database.pool.query(
      `update purchases set utm_source = 'again' where organization_id = $1`,
      [organization],
    );
    await vi.waitFor(() => expect(published.current().log).not.toBe(log), 120_000);
    expect(await published.verify()).toMatchObject({ state: 'equal', purchases: 50 });
  });

  it.for(['compact', 'catchUp'] as const)(
    'are not merged into a base if the log lost a batch while the worker runs, and are rebuilt: %s',
    { tags: ['slow'] },
    async (build, { published: { database, directory, organization } }) => {
      let damage = () => {};
      const published = openPublishedShop(database, directory, organization, {
        maxPurchasesWithoutBase: 0,
        maxLogRecords: 30,
        maxTickChanges: 30,
        replace: ({ builder }) => ({
          builder: {
            ...builder,
            [build](...parameters: Parameters<Builder[typeof build]>) {
              damage();
              return (builder[build] as (...all: unknown[]) => unknown)(...parameters);
            },
          },
        }),
      });
      const change = async (condition: string) => {
        const all = `update purchases set utm_source = 'changed' where organization_id = $1`;
        await database.pool.query(`${all} and ${condition}`, [organization]);
      };
      await addVariedPurchases(published, 50);
      await published.sync();
      await change('id % 3 = 0');
      await published.sync();
      let damages = 0;
      damage = () => {
        damages += 1;
        removeLastBatch(published.logPath());
        damage = () => {};
      };
      await change(build === 'catchUp' ? 'id % 3 > 0' : 'id % 3 = 1');
      await published.withWorker(async (worker) => {
        const stop = followWorker(worker);
        await vi.waitFor(async () => {
          expect(damages).toBe(1);
          expect(await published.verify()).toMatchObject({ state: 'equal', changedSince: 0 });
        }, 120_000);
        await stop();
      });
      expect(damages).toBe(1);
      await expectEqual(database.pool, directory, organization);
    },
  );

  it('are found by an API and by a worker that starts: the log ends before CURRENT says', async ({
    publishedInLog: published,
    startReader,
    startWorker,
  }) => {
    await addVariedPurchases(published, 50);
    await published.sync();
    const { log } = published.current();
    truncateSync(published.logPath(), 0);
    const { isDamageFound, close } = await startReader();
    expect(await isDamageFound()).toBe(true);
    await close();
    takeDamageReports(published.directory, () => true);
    await startWorker(published);
    await vi.waitFor(() => expect(published.current().log).not.toBe(log), 120_000);
    expect(await published.verify()).toMatchObject({ state: 'equal', purchases: 50 });
  });
});

describe('an API that has a damaged base open', { tags: ['slow'] }, () => {
  const readsPreviousChanges = '/v1/purchases/stats?created_since=2000-01-01T00:00:00Z';

  it.for([
    ['is truncated', ({ basePath }: PublishedShop) => truncateSync(basePath(), 13_000)],
    [
      'has other blocks',
      ({ basePath }: PublishedShop) =>
        writeFileSync(basePath(), readFileSync(basePath()).fill(7, firstBlock)),
    ],
  ] as const)(
    'responds to every request from Postgres, and reports the base: it %s',
    async ([_, damage], { published, startReader }) => {
      const { database, organization } = published;
      const customer = await addCustomer(database.pool, organization);
      // Opening a base of many blocks reads few of them.
      await database.pool.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at)
         select $1, $2, n, now() - n * interval '1 minute' from generate_series(1, 50000) as n`,
        [organization, customer],
      );
      await published.sync();
      await addVariedPurchases(published, 3);
      await published.sync();
      const undamaged = await startReader();
      const expected = await undamaged.get(readsPreviousChanges);
      await undamaged.close();
      const { get, isDamageFound } = await startReader();
      expect(await isDamageFound()).toBe(false);
      const { base } = published.current();
      damage(published);
      expect(await get(readsPreviousChanges)).toEqual(expected);
      expect(await isDamageFound()).toBe(true);
      const reports = takeDamageReports(published.directory, () => true);
      expect(reports.get(published.organization)).toBe(base);
    },
  );
});

describe('an API that has a damaged log open', { tags: ['slow'] }, () => {
  const damagesOfLog: readonly [string, Damage][] = [
    ['is missing', ({ logPath }) => rmSync(logPath())],
    ['is empty', ({ logPath }) => truncateSync(logPath(), 0)],
    [
      'ends within a batch',
      ({ logPath }) => truncateSync(logPath(), readFileSync(logPath()).length - 10),
    ],
  ];
  const open = it
    /** Published purchases, which an engine has open. */
    .extend('opened', async ({ published }, { onCleanup }) => {
      await publishWithLog(published);
      const engine = await createTestDuckDBEngine(published.directory, { onError: () => {} });
      onCleanup(engine.close);
      /** Null if the engine cannot read the files. */
      const count = async () => {
        const query = { filters: {}, groupLimit: 1 };
        const shown = await readPurchaseStats(engine, published.organization, query).catch(
          (error) => {
            if (error instanceof NoGenerationError) return null;
            throw error;
          },
        );
        return shown && { purchases: Number(shown.result.purchaseCount), asOf: shown.asOf };
      };
      expect(await count()).toMatchObject({ purchases: 50 });
      return { ...published, count };
    })
    /** Adds a purchase. Returns an instant after its commit. */
    .extend('addOne', ({ opened: { database, organization } }) => async () => {
      const { pool } = database;
      await addPurchase(pool, organization, { customer_id: await addCustomer(pool, organization) });
      const { rows } = await pool.query<{ now: bigint }>(
        `select ${microsecondsOf('clock_timestamp()')} as now`,
      );
      return (rows[0] as { now: bigint }).now;
    });

  open(
    'shows no instant whose changes it lacks if the log lost a batch that it has not read',
    async ({ opened, addOne, startWorker }) => {
      const { log } = opened.current();
      await addOne();
      await opened.sync();
      expect(opened.current().log).toBe(log);
      removeLastBatch(opened.logPath());
      expect(await opened.count()).toBeNull();
      await startWorker(opened);
      while ((await opened.count())?.purchases !== 51) await sleep(20);
      expect(opened.current().log).not.toBe(log);
    },
  );

  open.for(damagesOfLog)(
    'shows no instant whose changes it lacks if the log %s, until a running worker has loaded it again',
    async ([_, damage], { opened, addOne, startWorker }) => {
      await startWorker(opened);
      const { log } = opened.current();
      const started = newestTick(readTicks(opened.directory), opened.organization)?.tick ?? 0;
      const ticks = () => newestTick(readTicks(opened.directory), opened.organization)?.tick ?? 0;
      await vi.waitFor(() => expect(ticks()).toBeGreaterThan(started), 120_000);
      damage(opened);
      const committedAt = await addOne();
      for (;;) {
        const shown = await opened.count();
        if (shown?.purchases === 51) break;
        if (shown !== null) expect(shown.asOf).toBeLessThan(committedAt);
        await sleep(5);
      }
      expect(opened.current().log).not.toBe(log);
    },
  );

  open.for(damagesOfLog)(
    'shows no instant whose changes it lacks if the log %s, while a worker that starts cannot load it',
    async ([_, damage], { opened, addOne, startWorker }) => {
      damage(opened);
      const obstacle = unfinishedBasePath(opened.folder);
      mkdirSync(obstacle);
      await startWorker(opened);
      const committedAt = await addOne();
      const publishedAsOf = () =>
        newestTick(readTicks(opened.directory), opened.organization)?.asOf ?? 0n;
      await vi.waitFor(() => expect(publishedAsOf()).toBeGreaterThan(committedAt), 120_000);
      // The engine reads the tick at most every 50 ms.
      for (const end = Date.now() + 200; Date.now() < end; ) {
        const shown = await opened.count();
        if (shown !== null) expect(shown.asOf).toBeLessThan(committedAt);
      }
      rmdirSync(obstacle);
      while ((await opened.count())?.purchases !== 51) await sleep(20);
    },
  );
});
