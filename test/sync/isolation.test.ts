import { mkdirSync, renameSync, rmdirSync, rmSync, symlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { test } from '../support/fixtures.ts';
import { heldBuilds } from '../support/held-builds.ts';
import { addMarker, type Marker, untilShown } from '../support/marker.ts';
import { publishedFiles, publishedLog } from '../support/published-files.ts';
import { addOrganization, addPurchases } from '../support/shop.ts';
import { follow, type TestWorkerOptions } from '../support/sync.ts';

const maxTickChanges = 200;

const it = test
  /** A marker in the organization of the test. */
  .extend('marker', ({ database, organizationId }) => addMarker(database.pool, organizationId))
  /** A marker in another organization, which must not be delayed. */
  .extend('other', async ({ database: { pool } }) => addMarker(pool, await addOrganization(pool)))
  .extend('count', ({ engine }) => async ({ organizationId }: Marker) => {
    const { result } = await readPurchaseStats(engine, organizationId, {
      filters: {},
      groupLimit: 1,
    });
    return Number(result.purchaseCount);
  })
  /** The state of the organization in the worker's report; null if nothing is reported. */
  .extend('state', ({ directory, organizationId }) => () => {
    const reports = readWorkerState(directory, everyOrganization)?.organizations;
    return reports?.[String(organizationId)]?.state ?? null;
  })
  /** Makes a new worker follow changes until the end of the test. Both markers are published. */
  .extend(
    'start',
    ({ openWorker, marker, other, engine }, { onCleanup }) =>
      async (options: TestWorkerOptions = {}) => {
        onCleanup(follow(await openWorker({ maxTickChanges, ...options })));
        for (const each of [marker, other]) await untilShown(each, engine);
      },
  );

describe('an organization with more changes than a tick may have', { tags: ['slow'] }, () => {
  it.for([0, 5_000])(
    'delays no other, and shows all of them at once (bases from %i purchases on)',
    async (maxPurchasesWithoutBase, { marker, other, engine, count, start, folder }) => {
      const build = heldBuilds('catchUp');
      await start({ replace: build.replace, maxPurchasesWithoutBase });
      const before = publishedFiles(folder);
      const { organizationId, customerId } = marker;
      await marker.increment((connection) =>
        addPurchases(connection, organizationId, customerId, 10 * maxTickChanges),
      );
      await build.begun;
      for (let left = 5; left > 0; left -= 1) {
        await other.increment();
        await untilShown(other, engine);
        expect(await marker.read(engine)).toMatchObject({ value: marker.value() - 1n });
        expect(await count(marker)).toBe(1);
      }
      await marker.increment();
      build.end();
      const counts = new Set<number>();
      while ((await marker.read(engine))?.value !== marker.value()) counts.add(await count(marker));
      counts.add(await count(marker));
      expect([...counts].filter((each) => each !== 1)).toEqual([1 + 10 * maxTickChanges]);
      expect(publishedFiles(folder)).not.toEqual(before);
      await marker.increment();
      await untilShown(marker, engine);
    },
  );

  it('delays no other if several have many changes in one transaction', async ({
    marker,
    other,
    engine,
    count,
    start,
    folder,
  }) => {
    await start();
    const log = publishedLog(folder);
    // Each has fewer than a tick may have, and both have more.
    const many = Math.ceil(maxTickChanges * 0.6);
    await other.increment(async (connection) => {
      for (const { organizationId, customerId } of [marker, other]) {
        await addPurchases(connection, organizationId, customerId, many);
      }
    });
    await marker.increment();
    for (const each of [marker, other]) {
      await untilShown(each, engine);
      expect(await count(each)).toBe(1 + many);
    }
    expect(publishedLog(folder)).toBe(log);
  });
});

describe('an organization whose load does not end', () => {
  it('delays no other', { tags: ['slow'] }, async ({
    database,
    marker,
    other,
    engine,
    start,
    worker: _,
    openWorker,
    onTestFinished,
  }) => {
    const build = heldBuilds('load');
    const worker = await openWorker();
    await worker.once([marker, other].map(({ organizationId }) => organizationId));
    await worker.close();
    await start({ replace: build.replace });
    const slow = await addMarker(database.pool, await addOrganization(database.pool));
    onTestFinished(build.end);
    await build.begun;
    for (let left = 3; left > 0; left -= 1) {
      await other.increment();
      await untilShown(other, engine);
    }
    expect(await slow.read(engine)).toBeNull();
    build.end();
    await untilShown(slow, engine);
  });
});

describe('an organization whose log cannot be written', { tags: ['slow'] }, () => {
  it('delays no other, and joins again without a build', async ({
    marker,
    other,
    engine,
    start,
    state,
    folder,
  }) => {
    await start();
    const log = publishedLog(folder);
    renameSync(log, `${log}.kept`);
    // Opening it fails.
    symlinkSync(log, log);
    await other.increment();
    await marker.increment();
    while (state() !== 'failed') await sleep(20);
    for (let left = 5; left > 0; left -= 1) {
      await other.increment();
      await marker.increment();
      await untilShown(other, engine);
      expect(await marker.read(engine)).toMatchObject({ value: 0n });
    }
    rmSync(log);
    renameSync(`${log}.kept`, log);
    await untilShown(marker, engine);
    expect(publishedLog(folder)).toBe(log);
    while (state() !== null) await sleep(20);
  });

  it.for(['removed', 'removed with its folder', 'replaced by a folder'])(
    'delays no other, and is loaded again if the log was %s',
    async (damage, { marker, other, engine, start, state, folder }) => {
      await start();
      const log = publishedLog(folder);
      rmSync(damage === 'removed with its folder' ? folder : log, { recursive: true });
      if (damage === 'replaced by a folder') mkdirSync(log);
      await marker.increment();
      await other.increment();
      await untilShown(other, engine);
      await untilShown(marker, engine);
      expect(publishedLog(folder)).not.toBe(log);
      while (state() !== null) await sleep(20);
    },
  );
});

describe('an organization whose load cannot be published', () => {
  it('delays no other that is loaded with it, and makes none fail', async ({
    database,
    organizationId,
    otherShop,
    openWorker,
    directory,
    folder,
  }) => {
    const obstacle = `${currentFile(folder)}.tmp`;
    mkdirSync(obstacle, { recursive: true });
    const failed = new Set<bigint>();
    const worker = await openWorker({
      onReport: (id, { failure }) => failure !== null && failed.add(id),
    });
    const others = [otherShop.organizationId, await addOrganization(database.pool)];
    const all = [organizationId, ...others];
    await expect(worker.once(all)).rejects.toThrow(encodeId('organization', organizationId));
    for (const id of others) {
      expect(publishedFiles(organizationDirectory(directory, id))).not.toBeNull();
    }
    expect([...failed]).toEqual([organizationId]);
    rmdirSync(obstacle);
    await worker.once(all);
    expect(publishedFiles(folder)).not.toBeNull();
  });
});
