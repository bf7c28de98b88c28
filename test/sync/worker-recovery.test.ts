import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { unfinishedBasePath } from '../../sync/files/base-file.ts';
import { readReport } from '../../sync/status/report.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { addCustomer, addPurchases } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = test
  .extend('add', async ({ database, organizationId }) => {
    const customer = await addCustomer(database.pool, organizationId);
    return (count = 1) => addPurchases(database.pool, organizationId, customer, count);
  })
  /** Publishes what Postgres holds, by a worker that ends then. */
  .extend('sync', ({ openWorker, organizationId }) => async () => {
    const worker = await openWorker();
    await worker.once([organizationId]).finally(() => worker.close());
  });

describe('a worker after a failure of Postgres', () => {
  it('reports a connection that is lost during a load, and repeats the load', {
    tags: ['slow'],
  }, async ({ database, openWorker, organizationId, folder, add, expectEqual }) => {
    database.pool.on('error', () => {});
    await add(1_500);
    const worker = await openWorker({ loadChunkRows: 50 });
    const outcome = expect(worker.once([organizationId])).rejects.toThrow();
    while (!existsSync(unfinishedBasePath(folder))) await sleep(1);
    const locking = await database.pool.connect();
    await locking.query('begin; lock table purchases in access exclusive mode');
    const endWaiting = `select pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`;
    while ((await database.pool.query(endWaiting)).rowCount === 0) await sleep(5);
    await locking.query('rollback');
    locking.release();
    await outcome;
    await worker.once([organizationId]);
    await expectEqual();
  });

  it('applies changes after all connections were lost', { tags: ['slow'] }, async ({
    database,
    openWorker,
    add,
    untilPublished,
    expectEqual,
  }) => {
    database.pool.on('error', () => {});
    await add(5);
    const stop = follow(await openWorker());
    await untilPublished(5);
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await add(1);
    await untilPublished(6);
    await stop();
    await expectEqual();
  });

  it('waits for a statement that rewrites the table, and deletes no purchase', {
    tags: ['slow'],
  }, async ({ database, openWorker, organizationId, add, expectEqual }) => {
    await add(100);
    const worker = await openWorker();
    await worker.once([organizationId]);
    await database.pool.query('update purchases set utm_source = $1 where id % 10 = 0', ['a']);
    const migration = await database.pool.connect();
    await migration.query('begin');
    await migration.query('alter table purchases alter column utm_term type varchar(5000)');
    await migration.query('alter table purchases add column extra text default clock_timestamp()');
    const running = worker.once([organizationId]);
    const waiting = `select from pg_locks join pg_stat_activity using (pid)
      where not granted and datname = current_database()`;
    while ((await database.pool.query(waiting)).rowCount === 0) await sleep(5);
    await migration.query('commit');
    migration.release();
    await running;
    await expectEqual();
  });
});

describe('a worker after a failure of files', () => {
  it('loads an organization whose folder could not be created', async ({
    folder,
    add,
    sync,
    expectEqual,
  }) => {
    await add(3);
    mkdirSync(dirname(folder), { recursive: true });
    writeFileSync(folder, 'a file');
    await expect(sync()).rejects.toThrow(/EEXIST|ENOTDIR/);
    rmSync(folder);
    await sync();
    await expectEqual();
  });

  it.for(['truncated', 'overwritten', 'replaced by an older one', 'removed'])(
    'publishes again if the published file was %s before its start',
    async (damage, { folder, add, sync, expectEqual }) => {
      const publishedFile = () => join(folder, readPublished(folder)?.file ?? 'nothing');
      await add();
      await sync();
      const older = join(folder, 'older');
      copyFileSync(publishedFile(), older);
      await add();
      await sync();
      const file = publishedFile();
      if (damage === 'truncated') truncateSync(file, 5_000);
      else if (damage === 'overwritten') writeFileSync(file, 'x'.repeat(50_000));
      else if (damage === 'removed') rmSync(file);
      else copyFileSync(older, file);
      await sync();
      expect(publishedFile()).not.toBe(file);
      await expectEqual();
    },
  );

  it('rebuilds a damaged live file', { tags: ['slow'] }, async ({
    folder,
    add,
    sync,
    expectEqual,
  }) => {
    await add();
    await sync();
    truncateSync(join(folder, 'live.duckdb'), 20_000);
    await add();
    await sync();
    await expectEqual();
  });

  it('publishes when a full disk has space again, also after a restart', {
    tags: ['slow'],
  }, async ({
    database,
    directory,
    organizationId,
    otherShop: { organizationId: other },
    add,
    openWorker,
    untilPublished,
    expectEqual,
    skip,
    onTestFinished,
  }) => {
    const disk = await mountDisk(join(directory, 'disk'), 400);
    onTestFinished(disk.unmount);
    if (!disk.canBeFilled) skip();
    const folder = organizationDirectory(disk.path, organizationId);
    await add();
    const worker = await openWorker({ dataDirectory: disk.path });
    const stop = follow(worker);
    await untilPublished(1, folder);
    const before = readPublished(folder);
    await disk.fill(20 * 2 ** 20);
    const customer = await addCustomer(database.pool, other);
    await addPurchases(database.pool, other, customer, 1);
    await add();
    while ((readReport(folder)?.failure ?? null) === null) await sleep(20);
    expect(readReport(folder)?.failure?.message).toBe('The disk that holds DATA_DIR is full.');
    expect(readPublished(folder)).toEqual(before);
    expect(readdirSync(folder)).toContain(before?.file);
    await stop();
    await worker.close();

    await disk.fill(0);
    const next = await openWorker({ dataDirectory: disk.path });
    const stopNext = follow(next);
    await disk.free();
    await untilPublished(2, folder);
    await untilPublished(1, organizationDirectory(disk.path, other));
    while (readReport(folder)?.failure !== null) await sleep(20);
    await expectEqual(disk.path);
    await stopNext();
    await next.close();
  });
});

describe('a worker', () => {
  it('removes the log entries and the files of a deleted organization', { tags: ['slow'] }, async ({
    database,
    openWorker,
    organizationId,
    folder,
    add,
  }) => {
    await add(50);
    const stop = follow(await openWorker());
    while (readPublished(folder) === null) await sleep(10);
    await database.pool.query('delete from organizations where id = $1', [organizationId]);
    const entries = async () => {
      const { rowCount } = await database.pool.query(
        'select from purchase_changes where organization_id = $1',
        [organizationId],
      );
      return rowCount ?? 0;
    };
    while (existsSync(folder)) await sleep(20);
    while ((await entries()) > 0) await sleep(20);
    await stop();
  });

  it('removes the folder of an organization that was deleted during its first load', async ({
    database,
    openWorker,
    organizationId,
    folder,
  }) => {
    await database.pool.query('delete from organizations where id = $1', [organizationId]);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'next.duckdb'), '');
    const stop = follow(await openWorker());
    while (existsSync(folder)) await sleep(20);
    await stop();
  });

  it('removes the folder of a deleted organization also if CURRENT of others is unreadable', async ({
    database,
    directory,
    openWorker,
    organizationId,
    folder,
  }) => {
    await database.pool.query('delete from organizations where id = $1', [organizationId]);
    // Folders have no order.
    for (let other = 1n; other <= 20n; other += 1n) {
      const unreadable = organizationDirectory(directory, organizationId + other);
      mkdirSync(unreadable, { recursive: true });
      writeFileSync(currentFile(unreadable), '{');
    }
    mkdirSync(folder, { recursive: true });
    const stop = follow(await openWorker());
    while (existsSync(folder)) await sleep(20);
    await stop();
  });
});
