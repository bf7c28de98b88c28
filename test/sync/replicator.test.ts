import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { unfinishedBasePath } from '../../sync/files/base-file.ts';
import { createIdleFiles } from '../../sync/files/idle-files.ts';
import { createReplicator, type FileReplicatorOptions } from '../../sync/files/replicator.ts';
import { noObserver } from '../../sync/metrics/observer.ts';
import type { Replicator } from '../../sync/schedule/replicator.ts';
import { allPurchases } from '../../sync/verification/purchase-range.ts';
import { mountDisk } from '../support/disk.ts';
import { test } from '../support/fixtures.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { addCustomer } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { openPublishedShop } from '../support/verified-shop.ts';

const diskSpace = vi.hoisted(() => ({ isFull: false }));
// As if another process filled the disk after the worker's check: then DuckDB's writes fail.
vi.mock('../../sync/files/disk-space.ts', async (original) => ({
  ...(await original<typeof import('../../sync/files/disk-space.ts')>()),
  requireSpace: async () => {
    if (diskSpace.isFull) throw Object.assign(new Error('No space left'), { code: 'ENOSPC' });
  },
}));

const { signal } = new AbortController();

const it = test
  .extend('instance', { scope: 'file' }, async ({ directory }, { onCleanup }) => {
    const spillDirectory = join(directory, 'spill');
    const instance = await createInstance({ threads: 2, memoryLimit: '512MiB', spillDirectory });
    onCleanup(() => instance.closeSync());
    return instance;
  })
  .extend('addPurchases', ({ database, newShop: { organizationId } }) => async (count: number) => {
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, n, md5(n::text) from generate_series(1, $3::int) as n`,
      [organizationId, await addCustomer(database.pool, organizationId), count],
    );
  })
  /** An organization with 400 purchases. */
  .extend('organizationId', async ({ newShop, addPurchases }) => {
    await addPurchases(400);
    return newShop.organizationId;
  })
  .extend('openReplicator', ({ database, directory, instance, organizationId }, { onCleanup }) => {
    const replicators: Replicator[] = [];
    onCleanup(async () => {
      for (const replicator of replicators) await replicator.close();
    });
    return (options: Partial<FileReplicatorOptions> = {}): Replicator => {
      const replicator = createReplicator({
        organizationId,
        database: database.pool,
        instance,
        dataDirectory: directory,
        dataFolderId: randomUUID(),
        log: createRecordedLog(),
        observer: noObserver,
        idleFiles: createIdleFiles(1),
        loadChunkRows: 40,
        ...options,
      });
      replicators.push(replicator);
      return replicator;
    };
  })
  .extend('replicator', ({ openReplicator }) => openReplicator())
  .extend('changeAll', ({ database, organizationId }) => async () => {
    await database.pool.query(
      'update purchases set order_number = md5(order_number) where organization_id = $1',
      [organizationId],
    );
  });

const load = (replicator: Replicator) => replicator.build('load', signal, () => {});
const basesIn = (folder: string) =>
  readdirSync(folder).filter((name) => /^base-\w+\.duckdb$/.test(name));
const liveFile = (folder: string) => statSync(join(folder, 'live.duckdb')).ino;

describe('the replicator', () => {
  it('keeps the live file if the disk is full during a write of DuckDB', {
    tags: ['slow'],
  }, async ({
    directory,
    openReplicator,
    organizationId,
    addPurchases,
    changeAll,
    expectEqual,
    skip,
    onTestFinished,
  }) => {
    const disk = await mountDisk(join(directory, 'disk'), 400);
    onTestFinished(disk.unmount);
    if (!disk.canBeFilled) skip();
    await addPurchases(3_600);
    const folder = organizationDirectory(disk.path, organizationId);
    const replicator = openReplicator({ dataDirectory: disk.path, loadChunkRows: 4_000 });
    await load(replicator);
    const file = liveFile(folder);
    await changeAll();
    const failures: string[] = [];
    let isPublished = false;
    // With more space, a later step of the run fails.
    for (let freeBytes = 2 ** 18; !isPublished; freeBytes += 2 ** 18) {
      await disk.free();
      await disk.fill(freeBytes);
      isPublished = await replicator.run(signal).then(
        () => true,
        (error) => failures.push(String(error)) === 0,
      );
      expect(liveFile(folder), failures.join('\n')).toBe(file);
    }
    expect(failures).toContainEqual(expect.stringMatching(/Failed to commit/));
    expect(failures).toContainEqual(expect.stringMatching(/Checkpoint failed/));
    await replicator.close();
    await expectEqual(disk.path);
  });

  it('resumes an interrupted load, and retains the change log for it', { tags: ['slow'] }, async ({
    replicator,
    changeAll,
    expectEqual,
  }) => {
    await load(replicator);
    const interruption = new AbortController();
    const interrupted = replicator.build('load', interruption.signal, ({ loaded }) => {
      if (loaded > 200) interruption.abort(new Error('interrupted'));
    });
    await expect(interrupted).rejects.toThrow('interrupted');
    await changeAll();
    await replicator.run(signal);
    // Of the live delta, and of the unfinished base.
    expect(replicator.retainedSnapshots()).toHaveLength(2);
    const loaded: number[] = [];
    await replicator.build('load', signal, (progress) => loaded.push(progress.loaded));
    expect(loaded[0]).toBeGreaterThan(200);
    expect(replicator.retainedSnapshots()).toHaveLength(1);
    await expectEqual();
  });

  it('completes a load although the worker of another data folder prunes the change log', {
    tags: ['slow'],
  }, async ({ database, directory, organizationId, openReplicator, changeAll, expectEqual }) => {
    const other = await createTestWorker(database.pool, join(directory, 'other'));
    await other.once([organizationId]);
    const replicator = openReplicator({ loadChunkRows: 10 });
    let loading = Promise.resolve(false);
    await new Promise<void>((resolve) => {
      loading = replicator.build('load', signal, () => resolve());
    });
    await changeAll();
    await other.once([organizationId]);
    await other.close();
    await loading;
    await expectEqual();
  });

  it('applies changes during a compaction, and retains the change log for it', {
    tags: ['slow'],
  }, async ({ replicator, folder, changeAll, expectEqual }) => {
    await load(replicator);
    await replicator.run(signal);
    const compacting = replicator.build('compact', signal, () => {});
    while (!existsSync(unfinishedBasePath(folder))) await sleep(1);
    // Of the live delta, and of the generation that is compacted.
    expect(replicator.retainedSnapshots()).toHaveLength(2);
    await changeAll();
    await replicator.run(signal);
    await compacting;
    expect(replicator.retainedSnapshots()).toHaveLength(1);
    await replicator.run(signal);
    await expectEqual();
  });

  it('removes older bases if the disk is full', { tags: ['slow'] }, async ({
    replicator,
    folder,
    changeAll,
    expectEqual,
    onTestFinished,
  }) => {
    await load(replicator);
    await replicator.build('compact', signal, () => {});
    expect(basesIn(folder)).toHaveLength(2);
    await changeAll();
    diskSpace.isFull = true;
    onTestFinished(() => {
      diskSpace.isFull = false;
    });
    await expect(replicator.run(signal)).rejects.toThrow('No space left');
    expect(basesIn(folder)).toEqual([readPublished(folder)?.base]);
    diskSpace.isFull = false;
    await replicator.run(signal);
    await expectEqual();
  });

  it('removes the base of a load that must start over', { tags: ['slow'] }, async ({
    database,
    openReplicator,
    folder,
    expectEqual,
  }) => {
    const replicator = openReplicator({ loadChunkRows: 10 });
    await load(replicator);
    const before = basesIn(folder);
    let rewriting: Promise<unknown> | null = null;
    const interrupted = replicator.build('load', signal, () => {
      rewriting ??= database.pool.query('vacuum full purchases');
    });
    await expect(interrupted).rejects.toThrow('the load must start over');
    await rewriting;
    expect(basesIn(folder)).toEqual(before);
    await load(replicator);
    await expectEqual();
  });

  it('discards a compaction of purchases that were repaired meanwhile', {
    tags: ['slow'],
  }, async ({ database, directory, organizationId, openReplicator, expectEqual }) => {
    const loading = openReplicator();
    await load(loading);
    await loading.close();
    const published = openPublishedShop(database, directory, organizationId);
    await published.damage('update purchase set purchase_value_in_cents = 0 where id % 7 = 0');
    const replicator = openReplicator();
    await replicator.run(signal);
    const compacting = replicator.build('compact', signal, () => {});
    const repairing = replicator.reread([allPurchases], signal);
    await expect(compacting).rejects.toThrow('repaired during the compaction');
    expect(await repairing).toBe(true);
    await expectEqual();
    await replicator.build('compact', signal, () => {});
    await expectEqual();
  });

  it('publishes a repair in the next run if publishing failed, also after a restart', {
    tags: ['slow'],
  }, async ({ openReplicator, replicator, folder, expectEqual }) => {
    await load(replicator);
    const before = readPublished(folder)?.file;
    const obstacle = `${currentFile(folder)}.tmp`;
    mkdirSync(obstacle);
    await expect(replicator.reread([allPurchases], signal)).rejects.toThrow('EISDIR');
    rmdirSync(obstacle);
    expect(readPublished(folder)?.file).toBe(before);
    await replicator.close();
    await openReplicator().run(signal);
    expect(readPublished(folder)?.file).not.toBe(before);
    await expectEqual();
  });

  it('publishes a load in the next run if publishing failed', { tags: ['slow'] }, async ({
    replicator,
    folder,
    expectEqual,
  }) => {
    await load(replicator);
    const before = readPublished(folder)?.file;
    const file = liveFile(folder);
    const obstacle = `${currentFile(folder)}.tmp`;
    mkdirSync(obstacle);
    await load(replicator);
    expect(readPublished(folder)?.file).toBe(before);
    expect(liveFile(folder)).not.toBe(file);
    await expect(replicator.run(signal)).rejects.toThrow('EISDIR');
    rmdirSync(obstacle);
    await replicator.run(signal);
    expect(readPublished(folder)?.file).not.toBe(before);
    expect(existsSync(join(folder, 'next.duckdb'))).toBe(false);
    await expectEqual();
  });

  it('knows of no published generation if publishing failed after CURRENT was replaced', {
    tags: ['slow'],
  }, async ({ replicator, folder }) => {
    await load(replicator);
    const before = readPublished(folder)?.file;
    expect(replicator.publishedGeneration()?.name).toBe(before);
    // They look like old generations, which are removed last. A folder cannot be removed.
    const obstacles = [1, 2].map((number) => join(folder, `${number}-00.duckdb`));
    for (const obstacle of obstacles) mkdirSync(obstacle);
    await expect(replicator.reread([allPurchases], signal)).rejects.toThrow('EISDIR');
    expect(readPublished(folder)?.file).not.toBe(before);
    expect(replicator.publishedGeneration()).toBeNull();
    for (const obstacle of obstacles) rmdirSync(obstacle);
    await replicator.run(signal);
    expect(replicator.publishedGeneration()?.name).toBe(readPublished(folder)?.file);
  });
});
