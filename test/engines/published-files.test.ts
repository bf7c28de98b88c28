import {
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { takeDamageReports } from '../../src/purchase-store/damage/damage-reports.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';

const [shop, other] = [1n, 2n];

const bought = (...ids: bigint[]) => recordsOf(ids.map((id) => upsertLine(purchaseRow({ id }))));

function flip(path: string, at: number): void {
  const content = readFileSync(path);
  content[at] = (content[at] ?? 0) ^ 1;
  writeFileSync(path, content);
}

const it = test
  .extend('errors', () => [] as unknown[])
  /** An engine over a new data folder, and what it shows. */
  .extend('served', async ({ newDirectory, errors }, { onCleanup }) => {
    const engine = await createTestDuckDBEngine(newDirectory, {
      onError: (_id, error) => errors.push(error),
    });
    onCleanup(engine.close);
    const shown = async (id = shop) => {
      const { result, asOf } = await engine.list(id, { filters: {}, limit: 10_000 });
      const ids = result.purchases.map((purchase) => purchase.id);
      return { ids: ids.sort((one, another) => Number(one - another)), asOf };
    };
    return {
      engine,
      shown,
      /** The purchases that are shown as soon as this tick is. */
      async shownAt(tick: number, id = shop) {
        for (;;) {
          const { asOf, ids } = await shown(id);
          if (asOf >= BigInt(tick)) return ids;
          await sleep(5);
        }
      },
      version: (id = shop) => engine.version(id),
      unavailability: () => engine.current().organizations.unavailability(shop),
      reports: () => takeDamageReports(newDirectory, () => true),
    };
  });

describe('a query', () => {
  it('sees all changes of a published tick, also if many begin at once', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    await shown();
    for (let tick = 2; tick < 12; tick += 1) {
      log.append(bought(BigInt(tick)), tick);
      publishTestTick(newDirectory, tick);
      const queries = Array.from({ length: 6 }, () => shownAt(tick));
      const expected = Array.from({ length: tick }, (_, index) => BigInt(index + 1));
      for (const ids of await Promise.all(queries)) expect(ids).toEqual(expected);
    }
  });

  it('ends although ticks follow faster than their changes are applied', async ({
    newDirectory,
    served: { shown },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    await shown();
    let tick = 1;
    const publish = () => {
      tick += 1;
      log.append(bought(BigInt(tick)), tick);
      publishTestTick(newDirectory, tick);
    };
    const publishing = setInterval(publish, 1);
    publish();
    try {
      // Each query shows a tick from between its begin and its end, without gaps.
      for (let query = 0; query < 20; query += 1) {
        const first = tick;
        const { ids, asOf } = await shown();
        expect(asOf).toBeGreaterThanOrEqual(BigInt(first));
        expect(ids).toEqual(Array.from({ length: Number(asOf) }, (_, index) => BigInt(index + 1)));
      }
    } finally {
      clearInterval(publishing);
    }
  });
});

describe('a batch of a tick that is not published', () => {
  it('is not shown, and is shown once the tick is published', async ({
    newDirectory,
    served: { shown, shownAt, version },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    // Before the files are opened, and afterwards.
    log.append(bought(2n), 3);
    const before = await version();
    expect(await shown()).toEqual({ ids: [1n], asOf: 1n });
    log.append(bought(3n), 4);
    publishTestTick(newDirectory, 2);
    expect(await shownAt(2)).toEqual([1n]);
    expect(await version()).toEqual({ name: before?.name, asOf: 2n });
    publishTestTick(newDirectory, 3);
    expect(await shownAt(3)).toEqual([1n, 2n]);
    expect((await version())?.name).not.toBe(before?.name);
    publishTestTick(newDirectory, 4);
    expect(await shownAt(4)).toEqual([1n, 2n, 3n]);
  });
});

describe('the instant of an organization', () => {
  it('is that of the published tick, or of the exception that the tick makes of it', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    for (const id of [shop, other]) publishFiles(newDirectory, id, bought(id));
    const exception = { asOf: 3n, snapshot: '1:1:', token: 'token' };
    publishTestTick(newDirectory, 5, { exceptions: { [String(shop)]: exception } });
    expect(await shown(shop)).toEqual({ ids: [shop], asOf: 3n });
    expect(await shown(other)).toEqual({ ids: [other], asOf: 5n });
    publishTestTick(newDirectory, 6);
    expect(await shownAt(6)).toEqual([shop]);
  });

  it('is that of CURRENT until a later tick includes the organization', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    publishTestTick(newDirectory, 5);
    publishFiles(newDirectory, shop, bought(1n), { tick: 5, asOf: 4n });
    expect(await shown()).toEqual({ ids: [1n], asOf: 4n });
    publishTestTick(newDirectory, 6);
    expect(await shownAt(6)).toEqual([1n]);
  });

  it('does not go back if the published tick does', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 5);
    expect((await shown()).asOf).toBe(5n);
    publishTestTick(newDirectory, 3);
    const first = async (id: bigint) => {
      publishFiles(newDirectory, id, bought(id));
      return (await shown(id)).asOf;
    };
    // Nothing has shown an instant of these organizations before.
    for (let id = other; (await first(id)) !== 3n; id += 1n);
    expect((await shown()).asOf).toBe(5n);
    publishTestTick(newDirectory, 7);
    expect(await shownAt(7)).toEqual([1n]);
  });
});

describe('files of another database or timeline', () => {
  it('are not served', async ({ newDirectory, served: { engine, unavailability } }) => {
    const source = { source: 'one', fingerprint: '1 table triggers' };
    publishFiles(newDirectory, shop, bought(1n), source);
    const from = (name: string) => {
      const reader = engine.forSource(name);
      return { version: () => reader.version(shop), get: () => reader.get(shop, 1n) };
    };
    expect((await from('1 one').get()).result?.id).toBe(1n);
    for (const name of ['1 another', '2 one']) {
      expect(await from(name).version()).toBeNull();
      await expect(from(name).get()).rejects.toBeInstanceOf(NoGenerationError);
      expect(unavailability()).toBe('other_database');
    }
    expect((await from('1 one').get()).result?.id).toBe(1n);
  });
});

describe('the version of an organization', () => {
  it('stays the same while only other organizations change', async ({
    newDirectory,
    served: { shownAt, version },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    const log = publishFiles(newDirectory, other, bought(1n));
    publishTestTick(newDirectory, 1);
    const [ofShop, ofOther] = [await version(shop), await version(other)];
    for (let tick = 2; tick < 5; tick += 1) {
      log.append(bought(BigInt(tick)), tick);
      publishTestTick(newDirectory, tick);
      await shownAt(tick, other);
      await shownAt(tick, shop);
      expect(await version(shop)).toEqual({ name: ofShop?.name, asOf: BigInt(tick) });
    }
    expect((await version(other))?.name).not.toBe(ofOther?.name);
  });

  it('is another one for other files with the same purchases', async ({
    newDirectory,
    served: { version },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    const before = await version();
    publishFiles(newDirectory, shop, bought(1n));
    expect((await version())?.name).not.toBe(before?.name);
  });
});

describe.skipIf(!canListOpenFiles)('the files of an organization', () => {
  it('are opened by its first query, and not by those of others', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    const open = (id: bigint) => openFilesUnder(organizationDirectory(newDirectory, id));
    for (const id of [shop, other]) publishFiles(newDirectory, id, bought(id));
    publishTestTick(newDirectory, 1);
    expect(await shown(shop)).toEqual({ ids: [shop], asOf: 1n });
    publishTestTick(newDirectory, 2);
    await shownAt(2);
    expect(open(shop)).toHaveLength(1);
    expect(open(other)).toEqual([]);
    await shown(other);
    expect(open(other)).toHaveLength(1);
  });
});

describe('a damaged log', () => {
  it('is reported once, and not served until other files are published', async ({
    newDirectory,
    served: { shown, version, reports, unavailability },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishFiles(newDirectory, other, bought(2n));
    publishTestTick(newDirectory, 1);
    flip(log.path, 20);
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(await version()).toBeNull();
    expect(unavailability()).toBe('damaged');
    expect(reports()).toEqual(new Map([[shop, log.name]]));
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(reports()).toEqual(new Map());
    expect((await shown(other)).ids).toEqual([2n]);
    publishFiles(newDirectory, shop, bought(1n, 3n));
    expect((await shown()).ids).toEqual([1n, 3n]);
  });

  it.for([
    ['has a damaged batch', (path: string) => flip(path, readFileSync(path).length - 20)],
    ['becomes shorter', (path: string) => truncateSync(path, 20)],
  ] as const)(
    'is reported if it %s after it was opened',
    async ([_, damage], { newDirectory, served: { shown, version, reports } }) => {
      const log = publishFiles(newDirectory, shop, bought(1n));
      publishTestTick(newDirectory, 1);
      await shown();
      log.append(bought(2n), 2);
      damage(log.path);
      publishTestTick(newDirectory, 2);
      while ((await version()) !== null) await sleep(5);
      await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
      expect(reports()).toEqual(new Map([[shop, log.name]]));
    },
  );

  it.for([
    ['differs from its checksum when it is applied', bought(2n), flip],
    ['has a record that cannot be decoded', recordsOf(['u\t2\n']), () => {}],
  ] as const)(
    'makes every query use another engine that waits for a batch, and is reported once: it %s',
    async ([_, records, damage], { newDirectory, errors, served }) => {
      const { shown, version, reports } = served;
      const log = publishFiles(newDirectory, shop, bought(1n));
      publishTestTick(newDirectory, 1);
      await shown();
      const before = await version();
      log.append(records, 2);
      publishTestTick(newDirectory, 2);
      while ((await version())?.name === before?.name) await sleep(5);
      const queries = [shown(), shown()];
      damage(log.path, readFileSync(log.path).length - 20);
      for (const query of await Promise.allSettled(queries)) {
        expect(query).toMatchObject({ reason: expect.any(NoGenerationError) });
      }
      expect(errors).toHaveLength(1);
      expect(reports()).toEqual(new Map([[shop, log.name]]));
      if (canListOpenFiles) {
        expect(openFilesUnder(organizationDirectory(newDirectory, shop))).toEqual([]);
      }
      publishFiles(newDirectory, shop, bought(3n));
      expect((await shown()).ids).toEqual([3n]);
    },
  );

  it('is reported, and not served, if an export finds the damage', async ({
    newDirectory,
    errors,
    served: { engine, version, reports },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    const exporting = engine.export(shop, {}, async () => {
      throw new Error('the export process failed: Corrupt database file');
    });
    await expect(exporting).rejects.toBeInstanceOf(NoGenerationError);
    expect(reports()).toEqual(new Map([[shop, log.name]]));
    expect(await version()).toBeNull();
    expect(errors).toHaveLength(1);
  });
});

describe('a CURRENT that cannot be read', () => {
  it.for(['{"layoutVersion"', 'null', '[]', '7'])(
    'is reported, and not served: %s',
    async (content, { newDirectory, served: { shown, version, reports } }) => {
      publishFiles(newDirectory, shop, bought(1n));
      await shown();
      writeFileSync(currentFile(organizationDirectory(newDirectory, shop)), content);
      expect(await version()).toBeNull();
      expect(reports()).toEqual(new Map([[shop, 'CURRENT']]));
      publishFiles(newDirectory, shop, bought(2n));
      expect((await shown()).ids).toEqual([2n]);
    },
  );

  it('is not served while its folder is not accessible', async ({
    newDirectory,
    errors,
    served: { shown, version, unavailability },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    await shown();
    const directory = organizationDirectory(newDirectory, shop);
    renameSync(directory, `${directory}.kept`);
    // Access to a link to itself fails for every user.
    symlinkSync(directory, directory);
    expect(await version()).toBeNull();
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(unavailability()).toBe('unreadable');
    expect(errors).toHaveLength(1);
    rmSync(directory);
    renameSync(`${directory}.kept`, directory);
    expect((await shown()).ids).toEqual([1n]);
  });
});
