import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  purchasesDirectory,
} from '../../src/purchase-store/format/current.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { unfinishedBasePath } from '../../sync/builds/base-file.ts';
import { readStatus } from '../../sync/status/status.ts';
import { formatStatus } from '../../sync/status/status-table.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { withBuilder } from '../support/held-builds.ts';
import { publishedFiles, publishedLog } from '../support/published-files.ts';
import { addCustomer, addPurchases } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = test
  /** Publishes what Postgres holds, by a worker that ends then. */
  .extend('sync', ({ openWorker, organizationId }) => async () => {
    const worker = await openWorker();
    await worker.once([organizationId]).finally(() => worker.close());
  });

describe('a worker after a failure of Postgres', { tags: ['slow'] }, () => {
  it('reports a connection that is lost during a load, and repeats the load', async ({
    database,
    openWorker,
    organizationId,
    folder,
    add,
    expectEqual,
  }) => {
    database.pool.on('error', () => {});
    await add(1_500);
    const worker = await openWorker({ loadChunkRows: 50, maxPurchasesWithoutBase: 0 });
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

  it('waits for a statement that rewrites the table, and deletes no purchase', async ({
    database,
    openWorker,
    organizationId,
    add,
    expectEqual,
  }) => {
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

  it('continues a log that ends within a batch', async ({ folder, add, sync, expectEqual }) => {
    await add();
    await sync();
    await add();
    await sync();
    const log = publishedLog(folder);
    const { size } = statSync(log);
    const batch = readFileSync(log);
    // A killed worker has appended these to the log, and has not published their tick.
    appendFileSync(log, `t\t999999999\n${batch.toString().split('\n')[1]}\ne\t9999`);
    await add();
    await sync();
    expect(publishedLog(folder)).toBe(log);
    expect(statSync(log).size).toBeGreaterThan(size);
    await expectEqual();
  });

  it('publishes when a disk without space or inodes has both again, also after a restart', {
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
    const log = () => readFileSync(publishedLog(organizationDirectory(disk.path, organizationId)));
    const failure = () => readWorkerState(disk.path, everyOrganization)?.failure ?? null;
    await add();
    let worker = await openWorker({ dataDirectory: disk.path });
    let stop = follow(worker);
    await untilPublished(1, organizationId, disk.path);
    const customer = await addCustomer(database.pool, other);
    for (const [index, fill] of [disk.fill, disk.fillInodes].entries()) {
      const before = log();
      await fill(index === 0 ? 10 * 2 ** 20 : 20);
      await addPurchases(database.pool, other, customer, 1);
      await add();
      while (failure() === null) await sleep(20);
      expect(failure()?.message).toBe('The disk that holds DATA_DIR is full.');
      expect(failure()?.advice).toMatch(/ must stay free as a reserve\. Free space or inodes/);
      expect(log()).toEqual(before);
      await stop();
      await worker.close();

      await fill(0);
      // Also without the worker's state, which a worker cannot write on a full disk.
      rmSync(join(purchasesDirectory(disk.path), 'workers'), { recursive: true });
      const status = await readStatus(database.pool, disk.path, 'id', []);
      expect(formatStatus(status)).toMatch(
        /^The disk that holds DATA_DIR \S+ is full: .* must stay free as a reserve\. Free space\.$/m,
      );
      worker = await openWorker({ dataDirectory: disk.path });
      stop = follow(worker);
      await disk.free();
      await untilPublished(index + 2, organizationId, disk.path);
      await untilPublished(index + 1, other, disk.path);
      while (failure() !== null) await sleep(20);
      await expectEqual(disk.path);
    }
    await stop();
    await worker.close();
  });
});

describe('a load onto a small disk', { tags: ['slow'] }, () => {
  it.for([
    [40, null],
    // DuckDB may write twice the bytes of the chunk.
    [
      15,
      /^1\d MiB are needed, \d MiB are free, and 1 MiB must stay free as a reserve\. Free space/,
    ],
  ] as const)(
    'needs what its chunk may take and a twentieth of the disk, and states both if it fails: %d MiB',
    async ([mebibytes, advice], {
      database,
      directory,
      newShop: { organizationId },
      newCustomerId,
      openWorker,
      skip,
      onTestFinished,
    }) => {
      const disk = await mountDisk(join(directory, `disk-${mebibytes}`), mebibytes);
      onTestFinished(disk.unmount);
      if (!disk.canBeFilled) skip();
      await addPurchases(database.pool, organizationId, newCustomerId, 80_000);
      const failures: string[] = [];
      const worker = await openWorker({
        dataDirectory: disk.path,
        onReport: (id, { failure }) => {
          if (id === organizationId && failure !== null) failures.push(failure.advice);
        },
      });
      const outcome = await worker.once([organizationId]).then(
        () => 'loaded',
        (error: Error) => error.message,
      );
      await worker.close();
      const { base } = publishedFiles(organizationDirectory(disk.path, organizationId)) ?? {};
      if (advice === null) {
        expect([outcome, failures, base]).toEqual(['loaded', [], expect.any(String)]);
      } else {
        const full = expect.stringContaining('The disk that holds DATA_DIR is full.');
        expect([outcome, base]).toEqual([full, undefined]);
        expect(failures[0]).toMatch(advice);
      }
    },
  );
});

describe('a worker', () => {
  it('removes the log entries and the files of a deleted organization', { tags: ['slow'] }, async ({
    database,
    openWorker,
    organizationId,
    folder,
    add,
  }) => {
    // A data folder that is no longer used retains entries for a day.
    await database.pool.query('delete from purchase_change_readers');
    await add(50);
    const stop = follow(await openWorker());
    while (publishedFiles(folder) === null) await sleep(10);
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

  it('no longer reports the failure of a deleted organization', async ({
    database,
    directory,
    openWorker,
    organizationId,
  }) => {
    const load = () => Promise.reject(new Error('no load succeeds'));
    const stop = follow(await openWorker({ replace: withBuilder(() => ({ load })) }));
    const reported = () =>
      Object.entries(readWorkerState(directory, everyOrganization)?.organizations ?? {});
    while (reported()[0]?.[1].state !== 'failed') await sleep(20);
    await database.pool.query('delete from organizations where id = $1', [organizationId]);
    while (reported().length > 0) await sleep(20);
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
    writeFileSync(join(folder, 'base.unfinished.duckdb'), '');
    const stop = follow(await openWorker());
    while (existsSync(folder)) await sleep(20);
    await stop();
  });

  it('removes the folder of a deleted organization also if CURRENT of others is damaged', async ({
    database,
    directory,
    openWorker,
    organizationId,
    folder,
  }) => {
    await database.pool.query('delete from organizations where id = $1', [organizationId]);
    // Folders have no order.
    for (let other = 1n; other <= 20n; other += 1n) {
      const damaged = organizationDirectory(directory, organizationId + other);
      mkdirSync(damaged, { recursive: true });
      writeFileSync(currentFile(damaged), '{');
    }
    mkdirSync(folder, { recursive: true });
    const stop = follow(await openWorker());
    while (existsSync(folder)) await sleep(20);
    await stop();
  });
});
