import {
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { describe, expect } from 'vitest';
import { NoGenerationError } from '../../src/domain/purchase-engine.ts';
import { createInstance } from '../../src/duckdb/connection.ts';
import { listPurchases } from '../../src/engines/duckdb/list/list.ts';
import type { Generation } from '../../src/engines/duckdb/serving/generation.ts';
import { createServedOrganizations } from '../../src/engines/duckdb/serving/served-organizations.ts';
import { takeDamageReports } from '../../src/purchase-store/damage/damage-reports.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test } from '../support/fixtures.ts';
import { deleteLine, purchaseRow, recordsOf, upsertLine } from '../support/log-lines.ts';
import { canListOpenFiles, openFilesUnder } from '../support/open-files.ts';
import { publishFiles, publishTestTick } from '../support/store-files.ts';
import { duckdbOptions } from '../support/sync.ts';

const [shop, other] = [1n, 2n];

const upserts = (...ids: bigint[]): string[] => ids.map((id) => upsertLine(purchaseRow({ id })));
const bought = (...ids: bigint[]) => recordsOf(upserts(...ids));

async function idsOf(connection: DuckDBConnection, generation: Generation): Promise<bigint[]> {
  const query = { filters: {}, limit: 10_000 };
  const { purchases } = await listPurchases(connection, generation, query);
  return purchases.map(({ id }) => id).sort((one, another) => Number(one - another));
}

function flip(path: string, at: number): void {
  const content = readFileSync(path);
  content[at] = (content[at] ?? 0) ^ 1;
  writeFileSync(path, content);
}

const it = test
  .extend('maxBytes', 1e9)
  .extend('errors', () => [] as unknown[])
  /** The organizations that are served from a new data folder. */
  .extend('served', async ({ newDirectory, maxBytes, errors }, { onCleanup }) => {
    const instance = await createInstance(duckdbOptions(newDirectory));
    const organizations = createServedOrganizations(instance, {
      dataDirectory: newDirectory,
      maxBytes,
      onError: (_id, error) => errors.push(error),
    });
    onCleanup(async () => {
      await organizations.close();
      instance.closeSync();
    });
    const shown = async (id = shop) => {
      const connection = await instance.connect();
      try {
        return await organizations.use(id, null, connection, async ({ generation, asOf }) => ({
          ids: await idsOf(connection, generation),
          asOf,
        }));
      } finally {
        connection.closeSync();
      }
    };
    return {
      instance,
      organizations,
      shown,
      /** The purchases that are shown as soon as this tick is. */
      async shownAt(tick: number, id = shop) {
        for (;;) {
          const { asOf, ids } = await shown(id);
          if (asOf >= BigInt(tick)) return ids;
          await sleep(5);
        }
      },
      version: (id = shop) => organizations.version(id, null),
      reports: () => takeDamageReports(newDirectory, () => true),
    };
  });

describe('a query', () => {
  it('sees one version in all of its statements', async ({ newDirectory, served }) => {
    const { instance, organizations, shown, shownAt } = served;
    const log = publishFiles(newDirectory, shop, bought(1n, 2n));
    publishTestTick(newDirectory, 1);
    await shown();
    const connection = await instance.connect();
    await organizations.use(shop, null, connection, async ({ generation, asOf }) => {
      // Before its first statement, and between two of them.
      for (const tick of [2, 3]) {
        const added = BigInt(tick + 1);
        log.append(recordsOf([deleteLine(1n), ...upserts(added)]), tick);
        publishTestTick(newDirectory, tick);
        expect(await shownAt(tick)).toContain(added);
        expect(await idsOf(connection, generation)).toEqual([1n, 2n]);
      }
      expect([generation.summary.purchases, asOf]).toEqual([2, 1n]);
    });
    expect(await shown()).toEqual({ ids: [2n, 3n, 4n], asOf: 3n });
    connection.closeSync();
  });

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

  it('sees more changes than are applied one by one', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    await shown();
    const deleted = Array.from({ length: 5_000 }, (_, index) => deleteLine(BigInt(index + 100)));
    log.append(recordsOf([...deleted, ...upserts(2n)]), 2);
    publishTestTick(newDirectory, 2);
    expect(await shownAt(2)).toEqual([1n, 2n]);
  });

  it('reads the files that it began with if others are published meanwhile', async ({
    newDirectory,
    served: { instance, organizations, shown },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    const connection = await instance.connect();
    await organizations.use(shop, null, connection, async ({ generation }) => {
      publishFiles(newDirectory, shop, bought(5n), { tick: 1 });
      expect((await shown()).ids).toEqual([5n]);
      expect(await idsOf(connection, generation)).toEqual([1n]);
    });
    connection.closeSync();
  });
});

describe('a batch of a tick that is not published', () => {
  it('is not shown, and is shown once the tick is published', async ({
    newDirectory,
    served: { shown, shownAt, version },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    const before = await version();
    await shown();
    log.append(bought(2n), 3);
    expect((await shown()).ids).toEqual([1n]);
    publishTestTick(newDirectory, 2);
    expect(await shownAt(2)).toEqual([1n]);
    expect(await version()).toEqual({ name: before?.name, asOf: 2n });
    publishTestTick(newDirectory, 3);
    expect(await shownAt(3)).toEqual([1n, 2n]);
    expect((await version())?.name).not.toBe(before?.name);
  });

  it('is not shown by files that are opened after it was written', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishTestTick(newDirectory, 1);
    log.append(bought(2n), 2);
    expect(await shown()).toEqual({ ids: [1n], asOf: 1n });
    publishTestTick(newDirectory, 2);
    expect(await shownAt(2)).toEqual([1n, 2n]);
  });

  it('is not shown after another start of the operating system if it may be lost', async ({
    newDirectory,
    served: { shown },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    log.append(bought(2n), 2);
    log.append(bought(3n), 3);
    const synced = { tick: 2, asOf: 2n, snapshot: '1:1:', token: 'token', exceptions: {} };
    publishTestTick(newDirectory, 3, { boot: 'an earlier start', synced });
    expect(await shown()).toEqual({ ids: [1n, 2n], asOf: 2n });
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
  it('are not served', async ({ newDirectory, served: { instance, organizations, shown } }) => {
    publishFiles(newDirectory, shop, bought(1n), {
      source: 'one',
      fingerprint: '1 table triggers',
    });
    const connection = await instance.connect();
    const from = (source: string) =>
      organizations.use(shop, source, connection, ({ generation }) =>
        idsOf(connection, generation),
      );
    expect(await from('1 one')).toEqual([1n]);
    for (const other of ['1 another', '2 one']) {
      expect(await organizations.version(shop, other)).toBeNull();
      await expect(from(other)).rejects.toBeInstanceOf(NoGenerationError);
      expect(organizations.unavailability(shop)).toBe('other_database');
    }
    expect((await shown()).ids).toEqual([1n]);
    connection.closeSync();
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
  const openUnder = (directory: string, id: bigint) =>
    openFilesUnder(organizationDirectory(directory, id));

  it('are opened by its first query, and not by those of others', async ({
    newDirectory,
    served: { shown, shownAt },
  }) => {
    for (const id of [shop, other]) publishFiles(newDirectory, id, bought(id));
    publishTestTick(newDirectory, 1);
    expect(await shown(shop)).toEqual({ ids: [shop], asOf: 1n });
    publishTestTick(newDirectory, 2);
    await shownAt(2);
    expect(openUnder(newDirectory, shop)).toHaveLength(1);
    expect(openUnder(newDirectory, other)).toEqual([]);
    await shown(other);
    expect(openUnder(newDirectory, other)).toHaveLength(1);
  });

  it('are closed once others are published', async ({ newDirectory, served: { shown } }) => {
    publishFiles(newDirectory, shop, bought(1n));
    await shown();
    const log = publishFiles(newDirectory, shop, bought(2n));
    expect((await shown()).ids).toEqual([2n]);
    expect(openUnder(newDirectory, shop)).toEqual([log.path]);
  });
});

describe('an organization beyond the memory of open files', () => {
  const bounded = it.extend('maxBytes', 1);

  bounded.skipIf(!canListOpenFiles)(
    'is closed while no query uses it, and opens again',
    async ({ newDirectory, errors, served: { instance, organizations, shown, shownAt } }) => {
      const isOpen = (id: bigint) =>
        openFilesUnder(organizationDirectory(newDirectory, id)).length > 0;
      const log = publishFiles(newDirectory, shop, bought(1n));
      publishFiles(newDirectory, other, bought(2n));
      publishTestTick(newDirectory, 1);
      const connection = await instance.connect();
      await organizations.use(shop, null, connection, async ({ generation }) => {
        expect((await shown(other)).ids).toEqual([2n]);
        expect(isOpen(shop)).toBe(true);
        expect(await idsOf(connection, generation)).toEqual([1n]);
      });
      connection.closeSync();
      // Opening an organization closes those that no query uses.
      const third = 3n;
      publishFiles(newDirectory, third, bought(3n));
      expect((await shown(third)).ids).toEqual([3n]);
      expect([isOpen(shop), isOpen(other), isOpen(third)]).toEqual([false, false, true]);
      for (let tick = 2; tick < 5; tick += 1) {
        log.append(bought(BigInt(tick)), tick);
        publishTestTick(newDirectory, tick);
        expect(await shownAt(tick)).toContain(BigInt(tick));
        expect([isOpen(shop), isOpen(other)]).toEqual([true, false]);
        expect((await shown(other)).ids).toEqual([2n]);
        expect([isOpen(shop), isOpen(other)]).toEqual([false, true]);
      }
      expect(errors).toEqual([]);
    },
  );
});

describe('a damaged log', () => {
  it('is reported, and not served until other files are published', async ({
    newDirectory,
    served: { shown, version, reports, organizations },
  }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    publishFiles(newDirectory, other, bought(2n));
    publishTestTick(newDirectory, 1);
    flip(log.path, 20);
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(await version()).toBeNull();
    expect(organizations.unavailability(shop)).toBe('damaged');
    expect(reports()).toEqual(new Map([[shop, log.name]]));
    // The worker receives no report of each query.
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(reports()).toEqual(new Map());
    expect((await shown(other)).ids).toEqual([2n]);
    publishFiles(newDirectory, shop, bought(1n, 3n));
    expect((await shown()).ids).toEqual([1n, 3n]);
  });

  it.for([
    ['has a damaged batch', (path: string) => flip(path, readFileSync(path).length - 20)],
    ['becomes shorter', (path: string) => truncateSync(path, 20)],
    [
      'lacks the end of a batch',
      (path: string) => truncateSync(path, readFileSync(path).length - 5),
    ],
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
});

describe('a batch that cannot be applied', () => {
  it.for([
    ['differs from its checksum when it is applied', bought(2n), flip],
    ['has a record that cannot be decoded', recordsOf(['u\t2\n']), () => {}],
  ] as const)(
    'makes every query that waits for it use another engine, and is reported: it %s',
    async ([_, records, damage], { newDirectory, errors, served }) => {
      const { instance, organizations, shown, version, reports } = served;
      const log = publishFiles(newDirectory, shop, bought(1n));
      publishTestTick(newDirectory, 1);
      await shown();
      const before = await version();
      log.append(records, 2);
      publishTestTick(newDirectory, 2);
      while ((await version())?.name === before?.name) await sleep(5);
      const connections = await Promise.all([instance.connect(), instance.connect()]);
      // Each query finds the batch before its first wait, and applies the batch after it.
      const queries = connections.map((connection) =>
        organizations.use(shop, null, connection, async () => {}),
      );
      damage(log.path, readFileSync(log.path).length - 20);
      for (const query of await Promise.allSettled(queries)) {
        expect(query).toMatchObject({ reason: expect.any(NoGenerationError) });
      }
      for (const connection of connections) connection.closeSync();
      expect(errors).toHaveLength(1);
      expect(reports()).toEqual(new Map([[shop, log.name]]));
      if (canListOpenFiles) {
        expect(openFilesUnder(organizationDirectory(newDirectory, shop))).toEqual([]);
      }
      publishFiles(newDirectory, shop, bought(3n));
      expect((await shown()).ids).toEqual([3n]);
    },
  );
});

describe('a file that an export finds damaged', () => {
  it('is reported, and not served', async ({ newDirectory, errors, onTestFinished }) => {
    const log = publishFiles(newDirectory, shop, bought(1n));
    const engine = await createTestDuckDBEngine(newDirectory, {
      onError: (_id, error) => errors.push(error),
    });
    onTestFinished(engine.close);
    const exporting = engine.export(shop, {}, async () => {
      throw new Error('the export process failed: Corrupt database file');
    });
    await expect(exporting).rejects.toBeInstanceOf(NoGenerationError);
    expect(takeDamageReports(newDirectory, () => true)).toEqual(new Map([[shop, log.name]]));
    expect(await engine.version(shop)).toBeNull();
    expect(errors).toHaveLength(1);
  });
});

describe('a CURRENT that cannot be read', () => {
  it('is reported, and not served', async ({
    newDirectory,
    served: { shown, version, reports },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    await shown();
    writeFileSync(currentFile(organizationDirectory(newDirectory, shop)), '{"layoutVersion"');
    expect(await version()).toBeNull();
    expect(reports()).toEqual(new Map([[shop, 'CURRENT']]));
    publishFiles(newDirectory, shop, bought(2n));
    expect((await shown()).ids).toEqual([2n]);
  });

  it('is not served while its folder is not accessible', async ({
    newDirectory,
    errors,
    served: { shown, version, organizations },
  }) => {
    publishFiles(newDirectory, shop, bought(1n));
    await shown();
    const directory = organizationDirectory(newDirectory, shop);
    renameSync(directory, `${directory}.kept`);
    // Access to a link to itself fails for every user.
    symlinkSync(directory, directory);
    expect(await version()).toBeNull();
    await expect(shown()).rejects.toBeInstanceOf(NoGenerationError);
    expect(organizations.unavailability(shop)).toBe('unreadable');
    expect(errors).toHaveLength(1);
    rmSync(directory);
    renameSync(`${directory}.kept`, directory);
    expect((await shown()).ids).toEqual([1n]);
  });
});
