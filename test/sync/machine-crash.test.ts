import { once } from 'node:events';
import {
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { readLogEnd } from '../../src/purchase-store/format/log.ts';
import {
  readTicks,
  type TickFile,
  tickPath,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { createFileStore } from '../../sync/files/file-store.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { deleteLine, recordsOf } from '../support/log-lines.ts';
import { addMarker, type Marker, untilShown } from '../support/marker.ts';
import { areEqual, publishedPurchases, storedPurchases } from '../support/published.ts';
import { publishedFiles, publishedLog } from '../support/published-files.ts';
import { addOrganization, addPurchases } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = isolatedTest
  /** Markers in organizations with 20 purchases each. */
  .extend('addMarkers', ({ database: { pool } }) => async (count: number) => {
    const markers: Marker[] = [];
    while (markers.length < count) {
      const marker = await addMarker(pool, await addOrganization(pool));
      await addPurchases(pool, marker.organizationId, marker.customerId, 20);
      markers.push(marker);
    }
    return markers;
  })
  .extend('folderOf', ({ directory }) => ({ organizationId }: Marker) => {
    return organizationDirectory(directory, organizationId);
  })
  /** The last tick that is on the disk. */
  .extend('synced', ({ directory }) => () => {
    const [tick] = readTicks(directory);
    if (tick === undefined) throw new Error('no tick is published');
    return tick.synced;
  })
  /** What a new reader shows. */
  .extend('read', ({ directory }) => async (marker: Marker) => {
    const engine = await createTestDuckDBEngine(directory, { onError: () => {} });
    return marker.read(engine).finally(() => engine.close());
  })
  /** A worker that has published all organizations, and whose syncs fail after `breakDisk`. */
  .extend('openSynced', ({ openWorker }) => async () => {
    let isBroken = false;
    const worker = await openWorker({
      minUnsavedChanges: 0,
      replace: ({ store }) => ({
        store: {
          ...store,
          async sync(...synced) {
            if (isBroken) throw new Error('the disk does not respond');
            return store.sync(...synced);
          },
        },
      }),
    });
    await worker.syncAll();
    const breakDisk = () => {
      isBroken = true;
    };
    return { worker, breakDisk };
  })
  /** Pretends that the operating system has started again. */
  .extend('reboot', ({ directory }) => () => {
    const path = tickPath(directory, everyOrganization);
    const content = JSON.parse(readFileSync(path, 'utf8'));
    writeFileSync(path, JSON.stringify({ ...content, boot: 'the start before' }));
  })
  .extend(
    'expectRecovery',
    ({ database, directory, openWorker }) =>
      async (markers: readonly Marker[]) => {
        const engine = await createTestDuckDBEngine(directory, { onError: () => {} });
        const states = new Set<string>();
        const worker = await openWorker({
          onReport: (id, { state }) => void states.add(`${id} is ${state}`),
        });
        const stop = follow(worker);
        for (const marker of markers) await untilShown(marker, engine);
        for (const marker of markers) await marker.increment();
        for (const marker of markers) await untilShown(marker, engine);
        await stop();
        await engine.close();
        for (const { organizationId: id } of markers) {
          const published = await publishedPurchases(directory, id);
          expect(areEqual(published, await storedPurchases(database.pool, id))).toBe(true);
        }
        return states;
      },
  );

describe('a restart of the operating system', { tags: ['slow'] }, () => {
  it('loses what was not on the disk: nothing later is shown, and the worker makes the logs whole', async ({
    addMarkers,
    openSynced,
    engine,
    folderOf,
    synced,
    read,
    reboot,
    expectRecovery,
  }) => {
    const markers = await addMarkers(4);
    const { worker, breakDisk } = await openSynced();
    breakDisk();
    const onDisk = synced();
    const stop = follow(worker);
    for (let round = 0; round < 3; round += 1) {
      for (const marker of markers) await marker.increment();
      for (const marker of markers) await untilShown(marker, engine);
    }
    await stop();
    await worker.close();
    expect(synced()).toEqual(onDisk);
    const [_whole, within, ...others] = markers as [Marker, Marker, ...Marker[]];
    for (const marker of [within, ...others]) {
      const log = publishedLog(folderOf(marker));
      const { bytes } = readLogEnd(log, onDisk.tick, 0);
      expect(statSync(log).size).toBeGreaterThan(bytes + 10);
      truncateSync(log, marker === within ? bytes + 10 : bytes);
    }
    reboot();
    for (const marker of markers) {
      expect(await read(marker)).toEqual({ value: 0n, asOf: onDisk.asOf });
    }
    expect(await expectRecovery(markers)).toEqual(new Set());
  });

  it('loses the join of an organization that was behind when ticks were last on the disk', async ({
    addMarkers,
    openSynced,
    engine,
    folderOf,
    synced,
    read,
    reboot,
    expectRecovery,
  }) => {
    const [marker, other] = (await addMarkers(2)) as [Marker, Marker];
    const { worker, breakDisk } = await openSynced();
    for (const each of [marker, other]) await untilShown(each, engine);
    const log = publishedLog(folderOf(marker));
    renameSync(log, `${log}.kept`);
    // Opening it fails.
    symlinkSync(log, log);
    await marker.increment();
    await other.increment();
    await expect(worker.syncAll()).rejects.toThrow();
    const stop = follow(worker);
    await untilShown(other, engine);
    while (synced().exceptions[String(marker.organizationId)] === undefined) await sleep(10);
    breakDisk();
    const { size } = statSync(`${log}.kept`);
    rmSync(log);
    renameSync(`${log}.kept`, log);
    await untilShown(marker, engine);
    await stop();
    await worker.close();
    expect(synced().exceptions).toHaveProperty(String(marker.organizationId));
    truncateSync(log, size);
    reboot();
    // The reader requires that the instant is earlier than the increment.
    expect(await read(marker)).toMatchObject({ value: 0n });
    expect(await read(other)).toMatchObject({ value: 1n });
    expect(await expectRecovery([marker, other])).toEqual(new Set());
  });

  it('loses nothing that was published while a log could not be synced for a moment', async ({
    database,
    directory,
    addMarkers,
    openSynced,
    folderOf,
    onTestFinished,
  }) => {
    const [marker] = (await addMarkers(1)) as [Marker];
    const { worker } = await openSynced();
    await worker.close();
    const store = createFileStore({ database: database.pool, dataDirectory: directory });
    const [tick] = readTicks(directory) as [TickFile];
    await store.recover(marker.organizationId, tick.tick);
    const records = recordsOf([deleteLine(1n)]);
    await store.append(tick.tick + 1, new Map([[marker.organizationId, records]]));
    const log = publishedLog(folderOf(marker));
    const socket = join(directory, 'socket');
    const server = createServer().listen(socket);
    await once(server, 'listening');
    onTestFinished(() => void server.close());
    renameSync(log, `${log}.kept`);
    // Opening it fails.
    renameSync(socket, log);
    await store.publish(tick);
    const sync = () =>
      store.sync(
        (work) => work(),
        () => store.publish(tick),
      );
    await expect(sync()).rejects.toThrow('ENXIO');
    await expect(sync()).rejects.toThrow('ENXIO');
    renameSync(`${log}.kept`, log);
    await sync();
  });

  it('does not hide that a log lost a batch that was on the disk: it is loaded again', async ({
    addMarkers,
    openSynced,
    folderOf,
    synced,
    read,
    reboot,
    expectRecovery,
  }) => {
    const [marker, other] = (await addMarkers(2)) as [Marker, Marker];
    const { worker } = await openSynced();
    await marker.increment();
    await worker.syncAll();
    await worker.close();
    const log = publishedLog(folderOf(marker));
    expect(readLogEnd(log, synced().tick, 0).bytes).toBe(statSync(log).size);
    truncateSync(log, readFileSync(log).lastIndexOf('\nt\t') + 1);
    reboot();
    expect(await read(marker)).toBeNull();
    expect(await read(other)).toMatchObject({ value: 0n });
    const states = await expectRecovery([marker, other]);
    expect([...states]).toContain(`${marker.organizationId} is rebuilding`);
  });

  it('loses new files of an organization, which is loaded again', async ({
    addMarkers,
    openWorker,
    folderOf,
    read,
    reboot,
    expectRecovery,
  }) => {
    const [marker, other] = (await addMarkers(2)) as [Marker, Marker];
    const worker = await openWorker();
    await worker.syncAll();
    const before = publishedFiles(folderOf(marker))?.log;
    await worker.rebuild(marker.organizationId);
    await worker.close();
    const log = publishedLog(folderOf(marker));
    expect(publishedFiles(folderOf(marker))?.log).not.toBe(before);
    truncateSync(log, 0);
    reboot();
    expect(await read(marker)).toBeNull();
    expect(await read(other)).toMatchObject({ value: 0n });
    const states = await expectRecovery([marker, other]);
    expect([...states]).toContain(`${marker.organizationId} is rebuilding`);
    expect([...states].filter((state) => state.startsWith(`${other.organizationId} `))).toEqual([]);
  });
});
