import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBInstance } from '@duckdb/node-api';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createInstance } from '../../src/duckdb/connection.ts';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { createIdleFiles } from '../../sync/files/idle-files.ts';
import { createReplicator, type Replicator } from '../../sync/schedule/replicator.ts';
import { type Disk, mountDisk } from '../support/disk.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

// Another process fills the disk after the worker has looked: what DuckDB writes then fails.
vi.mock('../../sync/files/disk-space.ts', async (original) => ({
  ...(await original<typeof import('../../sync/files/disk-space.ts')>()),
  requireSpace: async () => {},
}));

describe('work that a failure comes after', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let disk: Disk;
  let instance: DuckDBInstance;
  let sync: Replicator;
  let organization: bigint;
  let folder: string;
  const folderId = randomUUID();
  const nobody = new AbortController().signal;

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    disk = await mountDisk(join(directory.path, 'disk'), 400);
    organization = await addOrganization(database.pool);
    folder = organizationDirectory(disk.path, organization);
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, n, md5(n::text) from generate_series(1, 8000) as n`,
      [organization, await addCustomer(database.pool, organization)],
    );
    instance = await createInstance({
      threads: 2,
      memoryLimit: '512MiB',
      spillDirectory: join(directory.path, 'spill'),
    });
    sync = open();
  });
  afterEach(async () => {
    await sync.close();
    instance.closeSync();
    await disk.unmount();
    await database.drop();
    await directory.remove();
  });

  const open = (): Replicator =>
    createReplicator({
      organizationId: organization,
      database: database.pool,
      instance,
      dataDirectory: disk.path,
      dataFolderId: folderId,
      log: pino({ level: 'silent' }),
      idleFiles: createIdleFiles(1),
      loadChunkRows: 2_000,
    });
  const load = () => sync.build('load', nobody, () => {});
  const changeAll = () =>
    database.pool.query(`update purchases set order_number = md5(order_number)`);
  const live = () => statSync(join(folder, 'live.duckdb')).ino;
  const expectEqual = async () =>
    expect(await publishedPurchases(disk.path, organization)).toEqual(
      await storedPurchases(database.pool, organization),
    );

  it('is not thrown away because the disk was full, whatever DuckDB was at', async ({ skip }) => {
    if (!disk.canBeFilled) skip();
    await load();
    const file = live();
    const failures = new Set<string>();
    for (let round = 1; round <= 16; round += 1) {
      await changeAll();
      await disk.fill(round * 2 ** 19);
      await sync.run(nobody).catch((error) => failures.add(String(error)));
      await disk.free();
      await sync.run(nobody);
      expect(live(), [...failures].join('\n')).toBe(file);
    }
    expect([...failures].filter((failure) => /Checkpoint failed/.test(failure))).not.toEqual([]);
    await expectEqual();
  });

  it('is gone on with though changes were applied meanwhile: the log is kept for it', async () => {
    await load();
    const breakOff = new AbortController();
    const broken = sync.build('load', breakOff.signal, ({ loaded }) => {
      if (loaded > 4_000) breakOff.abort(new Error('broken off'));
    });
    await expect(broken).rejects.toThrow('broken off');
    await changeAll();
    await sync.run(nobody);
    expect(new Set(sync.retainedSnapshots()).size).toBe(2);
    const loaded: number[] = [];
    await sync.build('load', nobody, (progress) => loaded.push(progress.loaded));
    expect(loaded[0]).toBeGreaterThan(4_000);
    expect(sync.retainedSnapshots()).toHaveLength(1);
    await expectEqual();
  });

  it('is not lost because another folder prunes the log while it begins', async () => {
    const elsewhere = await createTestWorker(database.pool, join(directory.path, 'elsewhere'));
    await elsewhere.syncAll();
    let hasBegun = false;
    const loading = sync.build('load', nobody, () => {
      hasBegun = true;
    });
    loading.catch(() => {});
    while (!hasBegun) await sleep(1);
    await changeAll();
    await elsewhere.syncAll();
    await elsewhere.close();
    await loading;
    await expectEqual();
  });

  it('of a compaction is not lost because changes are applied meanwhile: the log is retained', async () => {
    await load();
    await sync.run(nobody);
    const compacting = sync.build('compact', nobody, () => {});
    while (!existsSync(join(folder, 'next.duckdb'))) await sleep(1);
    // Of the live delta, and of the generation that is compacted.
    expect(sync.retainedSnapshots()).toHaveLength(2);
    await changeAll();
    await sync.run(nobody);
    await compacting;
    expect(sync.retainedSnapshots()).toHaveLength(1);
    await sync.run(nobody);
    await expectEqual();
  });

  it('of mending is published by the next run where it could not be at first', async () => {
    await load();
    const before = readPublished(folder)?.file;
    const inTheWay = `${currentFile(folder)}.tmp`;
    mkdirSync(inTheWay);
    const everything = {
      createdSince: -(2n ** 62n),
      createdUntil: 2n ** 62n,
      idFrom: 0n,
      idUntil: 2n ** 62n,
    };
    await expect(sync.reread([everything], nobody)).rejects.toThrow('EISDIR');
    rmSync(inTheWay, { recursive: true });
    expect(readPublished(folder)?.file).toBe(before);
    // Of another process, too.
    await sync.close();
    sync = open();
    await sync.run(nobody);
    expect(readPublished(folder)?.file).not.toBe(before);
    await expectEqual();
  });

  it('is published by the next run where it could not be at first', async () => {
    await load();
    const before = readPublished(folder)?.file;
    const file = live();
    const inTheWay = `${currentFile(folder)}.tmp`;
    mkdirSync(inTheWay);
    await load();
    expect(readPublished(folder)?.file).toBe(before);
    expect(live()).not.toBe(file);
    await expect(sync.run(nobody)).rejects.toThrow('EISDIR');
    rmSync(inTheWay, { recursive: true });
    await sync.run(nobody);
    expect(readPublished(folder)?.file).not.toBe(before);
    expect(existsSync(join(folder, 'next.duckdb'))).toBe(false);
    await expectEqual();
  });
});
