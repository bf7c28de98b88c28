import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { describe, expect } from 'vitest';
import { builtProgram } from '../../src/process/package-files.ts';
import { publishedLogEnd } from '../../src/purchase-store/ticks/published.ts';
import {
  createTickReader,
  type Exceptions,
  readBootId,
  readTicks,
  type TickFile,
  tickPath,
  ticksDirectory,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { createTickPublisher } from '../../sync/files/synced-ticks.ts';
import { test } from '../support/fixtures.ts';

const exceptionsAt = (asOf: bigint): Exceptions =>
  Object.fromEntries(
    Array.from({ length: 100 }, (_, id) => [String(id), { asOf, snapshot: '1:1:', token: 'a' }]),
  );

const tickOf = (tick: number, exceptions: Exceptions, syncedExceptions: Exceptions) => {
  const shown = { asOf: BigInt(tick), snapshot: '1:1:', token: 'token' };
  const synced = { tick: 1, ...shown, asOf: 1n, exceptions: syncedExceptions, logEnds: {} };
  const source = { fingerprint: '', database: '', boot: readBootId() };
  return { shard: everyOrganization, tick, ...shown, exceptions, logEnds: {}, synced, ...source };
};

const it = test
  .extend('publisher', ({ newDirectory }) => createTickPublisher(newDirectory))
  .extend('exceptionFiles', ({ newDirectory }) => () => {
    const directory = ticksDirectory(newDirectory);
    const names = readdirSync(directory).filter((name) => !name.endsWith('.json'));
    return names.map((name) => join(directory, name)).sort();
  });

/** Publishes other exceptions a hundred times, and removes the previous ones each time. */
const publishOften = `
  const { dataDirectory, module, ticks } = require('node:worker_threads').workerData;
  import(module).then(({ createTickPublisher }) => {
    const publisher = createTickPublisher(dataDirectory);
    for (let tick = 2; tick <= 100; tick += 1) {
      publisher.publish({ ...ticks[tick % 3], tick, asOf: BigInt(tick) });
      publisher.removeUnused();
    }
  });`;

const [first, second, third] = [exceptionsAt(1n), exceptionsAt(2n), exceptionsAt(3n)];

describe('the exceptions of a tick', () => {
  it('are in a file that later ticks with the same exceptions name', ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    publisher.publish(tickOf(1, {}, {}));
    expect(exceptionFiles()).toEqual([]);
    publisher.publish(tickOf(2, first, first));
    const [file = '', ...others] = exceptionFiles();
    expect(others).toEqual([]);
    // A second write would repair it.
    const content = readFileSync(file);
    writeFileSync(file, '');
    publisher.publish(tickOf(3, first, first));
    expect(readFileSync(file, 'utf8')).toBe('');
    writeFileSync(file, content);
    expect(readTicks(newDirectory)).toEqual([tickOf(3, first, first)]);
    expect(readFileSync(tickPath(newDirectory, everyOrganization)).length).toBeLessThan(1_000);
    expect(publisher.namedFiles()).toEqual([file]);
  });

  it('stay until no tick needs them', ({ newDirectory, publisher, exceptionFiles }) => {
    publisher.publish(tickOf(1, first, {}));
    publisher.publish(tickOf(2, second, {}));
    publisher.publish(tickOf(3, third, first));
    expect(exceptionFiles()).toHaveLength(3);
    expect(publisher.namedFiles().sort()).toEqual(exceptionFiles());
    publisher.removeUnused();
    expect(exceptionFiles()).toHaveLength(2);
    expect(readTicks(newDirectory)).toEqual([tickOf(3, third, first)]);
    publisher.publish(tickOf(4, {}, {}));
    publisher.removeUnused();
    expect(exceptionFiles()).toEqual([]);
  });

  it('are those of the next publisher, which removes what its predecessor left', ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    publisher.publish(tickOf(1, first, second));
    const next = createTickPublisher(newDirectory);
    const [read] = readTicks(newDirectory);
    next.publish(tickOf(2, third, read?.synced.exceptions ?? {}));
    next.removeUnused();
    expect(readTicks(newDirectory)).toEqual([tickOf(2, third, second)]);
    expect(exceptionFiles()).toHaveLength(2);
  });

  it('are written again if a crash of the machine has damaged their file', ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    publisher.publish(tickOf(1, first, {}));
    writeFileSync(exceptionFiles()[0] as string, '');
    createTickPublisher(newDirectory).publish(tickOf(2, exceptionsAt(1n), {}));
    expect(readTicks(newDirectory)).toEqual([tickOf(2, first, {})]);
  });

  it('are not needed of a tick that a crash of the machine has lost', ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    publisher.publish(tickOf(1, first, first));
    const durable = exceptionFiles();
    publisher.publish(tickOf(5, second, first));
    for (const file of exceptionFiles()) if (!durable.includes(file)) rmSync(file);
    expect(readTicks(newDirectory)).toEqual([]);
    expect(readTicks(newDirectory, 'another start')).toMatchObject([
      { tick: 1, asOf: 1n, exceptions: first },
    ]);
  });

  it('are read with the next tick if it replaces them meanwhile', async ({
    newDirectory,
    publisher,
  }) => {
    publisher.publish(tickOf(1, first, {}));
    const ticks = [first, second, third].map((each) => tickOf(0, each, {}));
    const workerData = {
      module: builtProgram('sync/files/synced-ticks.ts'),
      ticks,
    };
    const publishing = new Worker(publishOften, {
      eval: true,
      workerData: { ...workerData, dataDirectory: newDirectory },
    });
    let hasEnded = false;
    const ended = once(publishing, 'exit').finally(() => {
      hasEnded = true;
    });
    while (!hasEnded) {
      for (let read = 0; read < 20; read += 1) expect(readTicks(newDirectory)).toHaveLength(1);
      await setImmediate();
    }
    expect(await ended).toEqual([0]);
    expect(readTicks(newDirectory)).toMatchObject([{ tick: 100, exceptions: second }]);
  });

  it('are never absent: a reader goes on to show the tick before', async ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    const reader = createTickReader(newDirectory);
    publisher.publish(tickOf(1, first, first));
    expect(reader.of(1n)).toEqual(tickOf(1, first, first));
    const kept = exceptionFiles();
    publisher.publish(tickOf(2, second, first));
    const [file = ''] = exceptionFiles().filter((each) => !kept.includes(each));
    const content = readFileSync(file);
    rmSync(file);
    expect(reader.of(1n)).toEqual(tickOf(1, first, first));
    writeFileSync(file, content);
    await expect.poll(() => reader.of(1n)).toEqual(tickOf(2, second, first));
  });
});

describe('the ends of logs', () => {
  const current = { tick: 0, logBytes: 10 };
  const tick = {
    ...tickOf(5, {}, {}),
    logEnds: { 1: 300 },
    synced: { ...tickOf(2, {}, {}).synced, logEnds: { 1: 200, 2: 20 } },
  };
  const endOf = (id: bigint, read: TickFile | undefined, files = current) =>
    publishedLogEnd(id, files, read ?? null);

  it('are those of the tick, or of the last tick on the disk, or of CURRENT', ({
    newDirectory,
    publisher,
  }) => {
    publisher.publish(tick);
    const [read] = readTicks(newDirectory);
    expect(read).toEqual(tick);
    expect([1n, 2n, 3n].map((id) => endOf(id, read))).toEqual([300, 20, 10]);
    expect(endOf(1n, undefined)).toBe(10);
  });

  it('are those of the last tick on the disk after a crash of the machine', ({
    newDirectory,
    publisher,
  }) => {
    publisher.publish(tick);
    const [read] = readTicks(newDirectory, 'another start');
    expect([1n, 2n, 3n].map((id) => endOf(id, read))).toEqual([200, 20, 10]);
  });

  it('are not of a log that CURRENT names since the tick', ({ newDirectory, publisher }) => {
    publisher.publish(tick);
    const [read] = readTicks(newDirectory);
    expect(endOf(1n, read, { tick: 5, logBytes: 30 })).toBe(30);
  });

  it('are in a file that stays until no tick needs it', ({
    newDirectory,
    publisher,
    exceptionFiles,
  }) => {
    publisher.publish(tick);
    const next = { 1: 300, 2: 40 };
    publisher.writeLogEnds(everyOrganization, next);
    expect(publisher.namedFiles().sort()).toEqual(exceptionFiles());
    expect(exceptionFiles()).toHaveLength(2);
    publisher.publish({ ...tick, synced: { ...tick.synced, logEnds: next } });
    publisher.removeUnused();
    expect(exceptionFiles()).toHaveLength(1);
    expect(readTicks(newDirectory)[0]?.synced.logEnds).toEqual(next);
  });

  it('of a tick of an earlier version are unknown', ({ newDirectory, publisher }) => {
    publisher.publish(tick);
    const path = tickPath(newDirectory, everyOrganization);
    const { logEnds: _, ...stored } = JSON.parse(readFileSync(path, 'utf8'));
    const { logEnds: __, ...synced } = stored.synced;
    writeFileSync(path, JSON.stringify({ ...stored, synced }));
    const [read] = readTicks(newDirectory);
    expect(read?.tick).toBe(5);
    expect(endOf(1n, read)).toBe(10);
  });
});
