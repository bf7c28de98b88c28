import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { createPool } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { readSettings } from '../../src/settings.ts';
import { followChanges } from '../../sync/commands/worker-process.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { createWorker } from '../../sync/schedule/worker.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createPostgresProxy } from '../support/postgres-proxy.ts';
import { addPurchases } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const it = isolatedTest.extend(
  'add',
  ({ database, shop, customerId }) =>
    (count: number) =>
      addPurchases(database.pool, shop.organizationId, customerId, count),
);

describe('a worker that has to stop', () => {
  let folder: string;

  it.beforeEach(async ({ directory, shop }) => {
    folder = organizationDirectory(directory, shop.organizationId);
  });
  const hasPublished = async (purchases: number) => {
    while (readPublished(folder)?.purchases !== purchases) await sleep(20);
  };

  it('has ended once any call of close has, also where a lost lock closed it before', async ({
    database,
    directory,
    shop,
    add,
  }) => {
    await add(2_000);
    const instance = await createInstance({
      threads: 1,
      memoryLimit: '256MiB',
      spillDirectory: join(directory, 'spill'),
    });
    const worker = createWorker({
      database: database.pool,
      instance,
      dataDirectory: directory,
      dataFolderId: await dataFolderId(directory),
      concurrency: 1,
      maxIdleFiles: 1,
      pollIntervalMs: 20,
      log: pino({ level: 'silent' }),
    });
    await worker.once([shop.organizationId]);
    let haveEnded = 0;
    const closing = [worker.close(), worker.close()].map((close) =>
      close.then(() => {
        haveEnded += 1;
      }),
    );
    await Promise.race(closing);
    // DuckDB is closed next: nothing may be at work in it any more.
    await Promise.resolve();
    expect(haveEnded).toBe(2);
    await Promise.all(closing);
    instance.closeSync();
  });

  it('does not wait for the end of a rebuild that verifying has asked for', async ({
    database,
    directory,
    add,
  }) => {
    await add(8_000);
    let activity = '';
    const worker = await createTestWorker(database.pool, directory, {
      loadChunkRows: 40,
      onReport: (_organizationId, report) => {
        activity = report.activity;
      },
      verification: {
        everyMs: 50,
        duckdb: {
          threads: 1,
          memoryLimit: '256MiB',
          spillDirectory: join(directory, 'spill'),
        },
      },
    });
    await worker.syncAll();
    truncateSync(join(folder, readPublished(folder)?.file ?? ''), 5_000);
    const stopping = new AbortController();
    const running = worker.run(stopping.signal);
    while (activity !== 'rebuilding') await sleep(5);
    stopping.abort();
    await running;
    expect(activity).toBe('rebuilding');
    await worker.close();
    expect(activity).toBe('rebuilding');
  });

  it('because its lock is lost waits for no answer of a network that has gone silent', async ({
    database,
    directory,
    add,
  }) => {
    await add(1);
    const proxy = await createPostgresProxy(database.url);
    const pool = createPool(proxy.url, { max: 8, applicationName: 'silenced' });
    const stopping = new AbortController();
    const following = followChanges(
      {
        settings: readSettings({ DATA_DIR: directory }),
        databaseUrl: proxy.url,
        database: pool,
        folderId: await dataFolderId(directory),
        log: pino({ level: 'silent' }),
        onReport: () => {},
      },
      {},
      stopping.signal,
    );
    await hasPublished(1);
    proxy.silence();
    // As Postgres does once it has noticed.
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'test'`,
    );
    await add(1);
    await hasPublished(2);
    stopping.abort();
    await following;
    await pool.end();
    await proxy.close();
  });
});
