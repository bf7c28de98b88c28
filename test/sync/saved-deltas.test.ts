import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { createFileStore } from '../../sync/files/file-store.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { publishedFiles } from '../support/published-files.ts';
import { follow, type TestWorkerOptions } from '../support/sync.ts';

const purchases = 100;
const minUnsavedChanges = 10;

const it = isolatedTest
  /** A worker that has published the purchases, and saves the delta after more than ten changes. */
  .extend('openSaving', ({ add, openWorker }) => async (options: TestWorkerOptions = {}) => {
    await add(purchases);
    const limits = { minUnsavedChanges, maxPurchasesWithoutBase: 0 };
    const worker = await openWorker({ ...limits, ...options });
    await worker.syncAll();
    return worker;
  })
  /** Changes so many purchases. */
  .extend('change', ({ database: { pool }, organizationId }) => async (count: number) => {
    await pool.query(
      `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1
       where id in (select id from purchases where organization_id = $1 order by random() limit $2)`,
      [organizationId, count],
    );
  })
  /** The saved deltas, with the times when they were written. */
  .extend('saved', ({ folder }) => () => {
    const names = readdirSync(folder).filter((name) => name.startsWith('delta-'));
    const writtenAt = (name: string) => statSync(join(folder, name), { bigint: true }).mtimeNs;
    return names.map((name) => ({ name, writtenAt: writtenAt(name) }));
  });

it('a delta is saved each time that readers would replay many changes', { tags: ['slow'] }, async ({
  openSaving,
  change,
  saved,
  expectEqual,
}) => {
  const worker = await openSaving();
  const publish = async (count: number) => {
    await change(count);
    await worker.syncAll();
    await expectEqual();
    return saved();
  };
  expect(await publish(minUnsavedChanges)).toEqual([]);
  const first = await publish(1);
  expect(first).toHaveLength(1);
  expect(await publish(minUnsavedChanges)).toEqual(first);
  const second = await publish(1);
  expect(second).toHaveLength(1);
  expect(second).not.toEqual(first);
});

it('a worker that starts does not save a delta again', async ({
  openSaving,
  openWorker,
  change,
  saved,
  expectEqual,
}) => {
  const worker = await openSaving();
  await change(minUnsavedChanges + 1);
  await worker.syncAll();
  await worker.close();
  const before = saved();
  expect(before).toHaveLength(1);
  const next = await openWorker({ minUnsavedChanges });
  for (const count of [1, minUnsavedChanges - 1]) {
    await change(count);
    await next.syncAll();
    expect(saved()).toEqual(before);
  }
  await change(1);
  await next.syncAll();
  expect(saved()).not.toEqual(before);
  await expectEqual();
});

it('changes are published although deltas cannot be saved', { tags: ['slow'] }, async ({
  openSaving,
  change,
  saved,
  folder,
  expectEqual,
}) => {
  const worker = await openSaving({
    maxLogRecords: 30,
    replace: ({ builder }) => ({
      builder: {
        ...builder,
        async saveDelta() {
          throw new Error('the disk is full');
        },
      },
    }),
  });
  const before = publishedFiles(folder)?.base;
  for (let round = 0; round < 3; round += 1) {
    await change(minUnsavedChanges + 1);
    await worker.syncAll();
    await expectEqual();
  }
  expect(saved()).toEqual([]);
  expect(publishedFiles(folder)?.base).not.toBe(before);
});

it('a compaction saves the changes that were published meanwhile', { tags: ['slow'] }, async ({
  openSaving,
  change,
  saved,
  folder,
  directory,
  expectEqual,
}) => {
  const maxLogRecords = 20;
  const worker = await openSaving({
    maxLogRecords,
    replace: ({ builder }) => ({
      builder: {
        ...builder,
        async compact(organization, publishedTick, build) {
          let tick = publishedTick();
          const begunAt = readTicks(directory)[0]?.snapshot;
          await change(minUnsavedChanges + 1);
          while (readTicks(directory)[0]?.snapshot === begunAt) await sleep(1);
          const ticks = () => {
            const next = tick;
            tick = publishedTick();
            return next;
          };
          return builder.compact(organization, ticks, build);
        },
      },
    }),
  });
  const stop = follow(worker);
  const before = publishedFiles(folder)?.log;
  await change(maxLogRecords + 1);
  while (publishedFiles(folder)?.log === before) await sleep(1);
  await stop();
  const { log } = publishedFiles(folder) ?? {};
  expect(saved().map(({ name }) => name)).toEqual([
    log?.replace(/^log-(.*)\.tsv$/, 'delta-$1.duckdb'),
  ]);
  await expectEqual();
});

it('a delta is removed before batches that it may show are cut off', async ({
  database,
  directory,
  organizationId,
  openSaving,
  change,
  saved,
}) => {
  const worker = await openSaving();
  const published = readTicks(directory)[0]?.tick ?? 0;
  await change(minUnsavedChanges + 1);
  await worker.syncAll();
  await worker.close();
  expect(saved()).toHaveLength(1);
  const store = createFileStore({ database: database.pool, dataDirectory: directory });
  await store.recover(organizationId, published + 1_000);
  expect(saved()).toHaveLength(1);
  await store.recover(organizationId, published);
  expect(saved()).toEqual([]);
});
