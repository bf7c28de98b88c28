import { truncateSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { createFileBuilder } from '../../sync/builds/file-builder.ts';
import { followChanges } from '../../sync/commands/worker-process.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { createFileStore } from '../../sync/files/file-store.ts';
import { openPublishedFiles } from '../../sync/verification/published-file.ts';
import { createWorker } from '../../sync/worker/worker.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { publishedFiles } from '../support/published-files.ts';
import { duckdbOptions, follow } from '../support/sync.ts';

describe('a worker that stops', () => {
  it('resolves every call of close at the same time, after all work has ended', async ({
    database,
    directory,
    shop,
    add,
  }) => {
    await add(1);
    const instance = await createInstance(duckdbOptions(directory));
    const folder = {
      database: database.pool,
      dataDirectory: directory,
      dataFolderId: await dataFolderId(directory),
    };
    const store = createFileStore(folder);
    const worker = createWorker({
      ...folder,
      store,
      builder: createFileBuilder(store, { ...folder, instance }),
      concurrency: 1,
      pollIntervalMs: 20,
      log: createRecordedLog(),
    });
    await worker.once([shop.organizationId]);
    let resolved = 0;
    const closing = [worker.close(), worker.close()].map((close) =>
      close.then(() => {
        resolved += 1;
      }),
    );
    await Promise.race(closing);
    // A caller closes DuckDB next, so no work may use it.
    await Promise.resolve();
    expect(resolved).toBe(2);
    await Promise.all(closing);
    instance.closeSync();
  });

  it('interrupts a rebuild that verification requested', { tags: ['slow'] }, async ({
    directory,
    shop,
    folder,
    add,
    openWorker,
  }) => {
    await add(8_000);
    let state = '';
    const worker = await openWorker({
      loadChunkRows: 40,
      onReport: (_organizationId, report) => {
        state = report.state;
      },
      verification: {
        everyMs: 50,
        open: (id) => openPublishedFiles(directory, id, duckdbOptions(directory, 'damaged')),
      },
    });
    await worker.once([shop.organizationId]);
    truncateSync(join(folder, publishedFiles(folder)?.base ?? 'no base'), 5_000);
    const stop = follow(worker);
    while (state !== 'rebuilding') await sleep(5);
    await stop();
    expect(state).toBe('rebuilding');
    await worker.close();
    expect(state).toBe('rebuilding');
  });

  it('because it lost its lock does not wait for connections that never answer', {
    tags: ['slow'],
  }, async ({ database, directory, add, proxy, untilPublished }) => {
    await add(1);
    const pool = createPool(proxy.url, { max: 8, applicationName: 'silenced' });
    const stopping = new AbortController();
    const following = followChanges(
      {
        settings: readSettings({ DATA_DIR: directory }),
        databaseUrl: proxy.url,
        database: pool,
        folderId: await dataFolderId(directory),
        log: createRecordedLog(),
      },
      {},
      stopping.signal,
    );
    await untilPublished(1);
    proxy.freeze();
    // Postgres ends the connections after its own timeout.
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid() and application_name <> 'test'`,
    );
    await add(1);
    await untilPublished(2);
    stopping.abort();
    await following;
    await pool.end();
  });
});
