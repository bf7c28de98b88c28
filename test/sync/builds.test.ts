import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { reserveBytes } from '../../src/process/disk-reserve.ts';
import { jsonOf } from '../../src/process/json-file.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/current.ts';
import type { Builder } from '../../sync/builds/builder.ts';
import type { OrganizationReport } from '../../sync/status/worker-state.ts';
import { recordedLog } from '../http/recorded-log.ts';
import { mountDisk, withUnnoticedFullDisk } from '../support/disk.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { untilShown } from '../support/published.ts';
import { publishedFiles, publishedLog } from '../support/published-files.ts';
import { addCustomer } from '../support/shop.ts';
import { follow, type TestWorkerOptions } from '../support/sync.ts';
import { openPublishedShop } from '../support/verified-shop.ts';

const purchases = 400;

const it = isolatedTest
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('reports', ({}): OrganizationReport[] => [])
  /** A worker with bases, which it loads 40 purchases at a time. Its reports of `organizationId` are in `reports`. */
  .extend(
    'open',
    ({ openWorker, organizationId, reports }) =>
      (options: TestWorkerOptions = {}) => {
        return openWorker({
          loadChunkRows: 40,
          maxPurchasesWithoutBase: 0,
          onReport: (id, report) => id === organizationId && reports.push(report),
          ...options,
        });
      },
  )
  /** Adds purchases to the organization, in another order than that of their creation. */
  .extend('add', async ({ database, organizationId }) => {
    const customer = await addCustomer(database.pool, organizationId);
    return (count: number) =>
      database.pool.query(
        `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
           order_number, utm_source)
         select $1, $2, n, '2025-01-01'::timestamptz + n * 7919 % 10007 * interval '1 minute',
           md5(n::text), 'source ' || n % 5
         from generate_series(1, $3::int) as n`,
        [organizationId, customer, count],
      );
  })
  /** Changes the first purchases of the organization, or all of them. */
  .extend('change', ({ database, organizationId }) => async (count: number | null = null) => {
    await database.pool.query(
      `update purchases set order_number = md5(order_number) where id in (
         select id from purchases where organization_id = $1 order by id limit $2)`,
      [organizationId, count],
    );
  })
  /** Waits until an engine that stays open shows what Postgres holds. */
  .extend('untilEqual', ({ database, engine, organizationId }) => async () => {
    const postgres = createPostgresEngine(database.pool);
    const query = { filters: {}, limit: 1_000_000 };
    const stored = (await postgres.list(organizationId, query)).result;
    const shown = () =>
      engine.list(organizationId, query).then(
        ({ result }) => result,
        () => null,
      );
    const text = jsonOf(stored);
    while (jsonOf(await shown()) !== text) await sleep(20);
  })
  /** A disk with the data folder. */
  .extend('disk', async ({ directory }, { onCleanup }) => {
    const disk = await mountDisk(join(directory, 'disk'), 400);
    onCleanup(disk.unmount);
    return disk;
  });

/** Lets the first calls of a method fail. Returns when they were called. */
function failing(method: 'load' | 'compact', failures: number) {
  const calls: number[] = [];
  const replace: NonNullable<TestWorkerOptions['replace']> = ({ builder }) => ({
    builder: {
      ...builder,
      [method]: async (...args: never[]) => {
        calls.push(Date.now());
        if (calls.length <= failures) throw new Error('no room');
        return (builder[method] as (...args: never[]) => Promise<unknown>)(...args);
      },
    } as Builder,
  });
  return { calls, replace };
}

/** A promise, and the function that resolves it. */
function createGate(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** Lets builds wait before they publish, until `end` is called. `kinds` are those that have begun. */
function waitingBuilds() {
  const begun = createGate();
  const ended = createGate();
  const kinds: string[] = [];
  const wait = async <Result>(kind: string, build: () => Promise<Result>): Promise<Result> => {
    kinds.push(kind);
    const result = await build();
    begun.resolve();
    await ended.promise;
    return result;
  };
  const replace: NonNullable<TestWorkerOptions['replace']> = ({ builder }) => ({
    builder: {
      ...builder,
      load: (...args) => wait('load', () => builder.load(...args)),
      catchUp: (...args) => wait('catch up', () => builder.catchUp(...args)),
      compact: (...args) => wait('compact', () => builder.compact(...args)),
    },
  });
  return { replace, kinds, begun: begun.promise, end: () => ended.resolve() };
}

const filesIn = (folder: string) =>
  readdirSync(folder).filter((name) => /\.(duckdb|tsv|csv|wal)$/.test(name));

describe('a load that fails', { tags: ['slow'] }, () => {
  it('leaves what is published, is reported, and is tried again after a pause', async ({
    open,
    organizationId,
    folder,
    add,
    change,
    untilEqual,
    reports,
  }) => {
    await add(purchases);
    const first = await open();
    await first.once([organizationId]);
    await first.close();
    const before = publishedFiles(folder);
    const { calls, replace } = failing('load', 2);
    const worker = await open({ replace });
    const stop = follow(worker);
    reports.length = 0;
    await expect(worker.repairsFor(organizationId).rebuild()).rejects.toThrow('no room');
    const report = reports.at(-1);
    expect(report).toMatchObject({ state: 'failed', failure: { message: 'no room', attempts: 1 } });
    await change();
    await untilEqual();
    expect(publishedFiles(folder)).toEqual(before);
    while (reports.at(-1)?.state !== 'live') await sleep(10);
    await stop();
    const [, second = 0, third = 0] = calls;
    const retries = reports.flatMap(({ failure }) => failure ?? []);
    const retryAt = (attempts: number) =>
      Date.parse(retries.find((each) => each.attempts === attempts)?.retryAt ?? '');
    // The clock of the pause and that of the report differ by a rounding.
    expect(second).toBeGreaterThanOrEqual(retryAt(1) - 5);
    expect(third).toBeGreaterThanOrEqual(retryAt(2) - 5);
    expect(calls).toHaveLength(3);
    expect(publishedFiles(folder)?.base).not.toBe(before?.base);
    await untilEqual();
  });

  it.for(['a load', 'a rebuild'])(
    'to replace CURRENT leaves what is published, and succeeds later: %s',
    async (kind, { open, organizationId, folder, add, expectEqual }) => {
      await add(purchases);
      const worker = await open();
      if (kind === 'a rebuild') await worker.once([organizationId]);
      const before = publishedFiles(folder);
      const obstacle = `${currentFile(folder)}.tmp`;
      mkdirSync(obstacle, { recursive: true });
      const load = () =>
        kind === 'a load'
          ? worker.once([organizationId])
          : worker.repairsFor(organizationId).rebuild();
      await expect(load()).rejects.toThrow();
      expect(publishedFiles(folder)).toEqual(before);
      expect(filesIn(folder)).toEqual(before === null ? [] : [before.base, before.log]);
      rmdirSync(obstacle);
      await load();
      expect(publishedFiles(folder)?.log).not.toBe(before?.log);
      await expectEqual();
    },
  );

  it('because of a table that was rewritten meanwhile removes its base, and starts over', async ({
    database,
    open,
    organizationId,
    folder,
    add,
    expectEqual,
  }) => {
    await add(purchases);
    let rewriting: Promise<unknown> | null = null;
    const worker = await open({
      loadChunkRows: 10,
      onReport: (_, { progress }) => {
        if (progress !== null) rewriting ??= database.pool.query('vacuum full purchases');
      },
    });
    await expect(worker.once([organizationId])).rejects.toThrow('The change log cannot be read');
    await rewriting;
    expect(filesIn(folder)).toEqual([]);
    await worker.once([organizationId]);
    await expectEqual();
  });

  it('resumes, and the change log is retained for it', async ({
    database,
    open,
    organizationId,
    otherShop,
    folder,
    add,
    change,
    expectEqual,
    reports,
  }) => {
    await add(purchases);
    let isInterrupting = true;
    const worker = await open({
      replace: ({ builder }) => ({
        builder: {
          ...builder,
          load: (organizations, build) =>
            builder.load(organizations, {
              ...build,
              onProgress(progress) {
                build.onProgress(progress);
                if (isInterrupting && progress.loaded > 200) throw new Error('interrupted');
              },
            }),
        },
      }),
    });
    const entries = async () => {
      const { rows } = await database.pool.query(
        'select count(*)::int as count from purchase_changes where organization_id = $1',
        [organizationId],
      );
      return rows[0].count as number;
    };
    await worker.once([otherShop.organizationId]);
    await expect(worker.once([organizationId])).rejects.toThrow('interrupted');
    expect(filesIn(folder)).toContain('base.unfinished.duckdb');
    await change();
    const changed = await entries();
    expect(changed).toBeGreaterThanOrEqual(purchases);
    // A pass prunes what nobody needs.
    await worker.once([otherShop.organizationId]);
    expect(await entries()).toBeGreaterThanOrEqual(purchases);
    reports.length = 0;
    isInterrupting = false;
    await worker.once([organizationId]);
    expect(reports.flatMap(({ progress }) => progress ?? [])[0]?.loaded).toBeGreaterThan(200);
    await expectEqual();
    await worker.once([organizationId]);
    expect(await entries()).toBe(0);
  });

  it('leave no files behind after a kill, once a worker starts', async ({
    open,
    organizationId,
    add,
    folder,
    expectEqual,
  }) => {
    await add(purchases);
    await (await open()).once([organizationId]);
    const published = filesIn(folder).sort();
    for (const name of ['base-0123456789ab.duckdb', 'log-0123456789ab.tsv', 'load-a.csv']) {
      writeFileSync(join(folder, name), '');
    }
    await (await open()).once([organizationId]);
    expect(filesIn(folder).sort()).toEqual(published);
    await expectEqual();
  });

  it('on a full disk at any step leaves what is published, and succeeds later', {
    timeout: 120_000,
  }, async ({ open, organizationId, disk, add, change, expectEqual, reports, skip }) => {
    if (!disk.canBeFilled) skip();
    await add(8_000);
    const folder = organizationDirectory(disk.path, organizationId);
    const worker = await open({ dataDirectory: disk.path, loadChunkRows: 2_000 });
    await worker.once([organizationId]);
    let failures = 0;
    for (let freeBytes = 2 ** 18; ; freeBytes += 2 ** 18) {
      await change(100);
      await worker.once([organizationId]).catch(() => {});
      const before = publishedFiles(folder);
      await disk.fill(freeBytes);
      const failure = await withUnnoticedFullDisk(() =>
        worker.repairsFor(organizationId).rebuild(),
      ).then(
        () => null,
        (error: unknown) => error,
      );
      await disk.free();
      if (failure === null) break;
      failures += 1;
      expect(reports.at(-1)?.failure?.message).toBe('The disk that holds DATA_DIR is full.');
      expect(publishedFiles(folder)).toEqual(before);
      await expectEqual(disk.path);
    }
    expect(failures).toBeGreaterThan(1);
    expect(failures * 2 ** 18).toBeLessThan(reserveBytes);
    const { base, log } = publishedFiles(folder) ?? {};
    expect(filesIn(folder).sort()).toEqual([base, log]);
    await change();
    await worker.once([organizationId]);
    await expectEqual(disk.path);
  });
});

describe('a load', { tags: ['slow'] }, () => {
  it('is completed although the worker of another data folder prunes the change log', async ({
    directory,
    open,
    organizationId,
    add,
    change,
    expectEqual,
  }) => {
    await add(purchases);
    const other = await open({ dataDirectory: join(directory, 'other') });
    await other.once([organizationId]);
    const begun = createGate();
    const worker = await open({
      loadChunkRows: 5,
      onReport: (_, { progress }) => progress !== null && begun.resolve(),
    });
    const loading = worker.once([organizationId]);
    await begun.promise;
    await change();
    await other.once([organizationId]);
    await loading;
    await expectEqual();
  });
});

describe('a rebuild', { tags: ['slow'] }, () => {
  it('that is requested during a compaction follows it, once for all requests', async ({
    open,
    organizationId,
    folder,
    add,
    change,
    expectEqual,
  }) => {
    await add(purchases);
    const first = await open();
    await first.once([organizationId]);
    await change(20);
    await first.once([organizationId]);
    await first.close();
    const { replace, kinds, begun, end } = waitingBuilds();
    const worker = await open({ maxLogRecords: 10, replace });
    const compacting = worker.once([organizationId]);
    await begun;
    const { rebuild } = worker.repairsFor(organizationId);
    const rebuilding = [rebuild(), rebuild()];
    const { base } = publishedFiles(folder) ?? {};
    expect(kinds).toEqual(['compact']);
    end();
    await compacting;
    await Promise.all(rebuilding);
    expect(kinds).toEqual(['compact', 'load']);
    expect(publishedFiles(folder)?.base).not.toBe(base);
    await expectEqual();
  });

  it('that is requested during a load ends with it', async ({
    open,
    organizationId,
    add,
    expectEqual,
  }) => {
    await add(purchases);
    const { replace, kinds, begun, end } = waitingBuilds();
    const worker = await open({ replace });
    const loading = worker.once([organizationId]);
    await begun;
    const rebuilding = worker.repairsFor(organizationId).rebuild();
    end();
    await Promise.all([loading, rebuilding]);
    expect(kinds).toEqual(['load']);
    await expectEqual();
  });
});

describe('a compaction that fails', { tags: ['slow'] }, () => {
  it('is no failure of the organization, and is tried again after a pause', async ({
    open,
    organizationId,
    folder,
    add,
    change,
    untilEqual,
    reports,
  }) => {
    await add(purchases);
    const { calls, replace } = failing('compact', 1);
    const { log, lines } = recordedLog();
    const worker = await open({ replace, log, maxLogRecords: 10 });
    await worker.once([organizationId]);
    const before = publishedFiles(folder);
    const stop = follow(worker);
    await change();
    while (calls.length === 0) await sleep(5);
    await change();
    await untilEqual();
    if (calls.length === 1) expect(publishedFiles(folder)).toEqual(before);
    while (publishedFiles(folder)?.base === before?.base) {
      await change(1);
      await sleep(20);
    }
    // The worker may begin another compaction before it stops.
    await vi.waitFor(() => expect(reports.at(-1)?.state).toBe('live'), 60_000);
    await stop();
    expect(reports.flatMap(({ failure }) => failure ?? [])).toEqual([]);
    const failed = lines
      .filter((line) => line.includes('retryInMs'))
      .map((line) => JSON.parse(line));
    expect(failed).toMatchObject([{ msg: 'no room', attempts: 1 }]);
    const [first = 0, second = 0] = calls;
    expect(second - first).toBeGreaterThanOrEqual(failed[0].retryInMs - 5);
    await untilEqual();
  });
});

describe('a compaction', { tags: ['slow'] }, () => {
  it.for([
    ['records of the log', 100, 10],
    ['2 % of the base', 1_000, 20],
  ] as const)(
    'is due beyond a number of %s',
    async ([, count, limit], { open, organizationId, folder, add, change, expectEqual }) => {
      await add(count);
      const worker = await open({ maxLogRecords: 10 });
      await worker.once([organizationId]);
      const before = publishedFiles(folder);
      await change(limit);
      await worker.once([organizationId]);
      expect(publishedFiles(folder)).toEqual(before);
      await change(1);
      await worker.once([organizationId]);
      const after = publishedFiles(folder);
      expect(after?.base).not.toBe(before?.base);
      expect(readFileSync(publishedLog(folder), 'utf8')).not.toMatch(/^[ud]/m);
      expect(filesIn(folder).sort()).toEqual([after?.base, after?.log]);
      await expectEqual();
    },
  );

  it('of few purchases creates no base: the log keeps one record of each', async ({
    database,
    open,
    organizationId,
    folder,
    add,
    change,
    untilEqual,
    expectEqual,
  }) => {
    await add(50);
    const worker = await open({ maxPurchasesWithoutBase: 100, maxLogRecords: 150 });
    await worker.once([organizationId]);
    await untilEqual();
    const before = publishedFiles(folder);
    await change();
    await worker.once([organizationId]);
    await database.pool.query('delete from purchases where id % 5 = 0');
    await change();
    await worker.once([organizationId]);
    expect(publishedFiles(folder)).toEqual(before);
    await change();
    await worker.once([organizationId]);
    const records = readFileSync(publishedLog(folder), 'utf8').match(/^[ud]/gm);
    expect(records).toEqual(new Array(40).fill('u'));
    expect(publishedFiles(folder)?.base).toBeNull();
    expect(filesIn(folder)).toEqual([publishedFiles(folder)?.log]);
    await untilEqual();
    await expectEqual();
  });

  it('creates the first base of an organization whose purchases have become many', async ({
    open,
    organizationId,
    folder,
    add,
    untilEqual,
  }) => {
    await add(10);
    const worker = await open({ maxPurchasesWithoutBase: 20, maxLogRecords: 30 });
    await worker.once([organizationId]);
    await untilEqual();
    expect(publishedFiles(folder)?.base).toBeNull();
    await add(25);
    await worker.once([organizationId]);
    expect(publishedFiles(folder)).toMatchObject({ base: expect.any(String), purchases: 35 });
    await untilEqual();
  });

  it('is also due after a start, without a change', async ({
    open,
    organizationId,
    folder,
    add,
    change,
    untilEqual,
  }) => {
    await add(purchases);
    const first = await open();
    await first.once([organizationId]);
    await change();
    await first.once([organizationId]);
    await first.close();
    const before = publishedFiles(folder);
    const stop = follow(await open({ maxLogRecords: 10 }));
    while (publishedFiles(folder)?.base === before?.base) await sleep(10);
    await stop();
    await untilEqual();
  });

  it('keeps what a repair has published meanwhile', async ({
    database,
    directory,
    open,
    organizationId,
    folder,
    add,
    change,
    expectEqual,
  }) => {
    await add(purchases);
    const first = await open();
    await first.once([organizationId]);
    await change(20);
    await first.once([organizationId]);
    await first.close();
    const published = openPublishedShop(database, directory, organizationId);
    await published.damage('update purchase set purchase_value_in_cents = 0 where id % 7 = 0');
    const { differences } = await published.verify();
    const before = publishedFiles(folder);
    const compaction = waitingBuilds();
    const worker = await open({ maxLogRecords: 10, replace: compaction.replace });
    const compacting = worker.once([organizationId]);
    await compaction.begun;
    await worker
      .repairsFor(organizationId)
      .reread(differences.flatMap(({ rows }) => rows?.ids ?? []));
    await expectEqual();
    compaction.end();
    await compacting;
    expect(publishedFiles(folder)?.base).not.toBe(before?.base);
    await expectEqual();
  });
});

describe('changes', { tags: ['slow'] }, () => {
  it.for(['a compaction', 'a rebuild'] as const)(
    'are published during %s, and none is lost when the files are replaced',
    async (kind, {
      database,
      open,
      organizationId,
      folder,
      add,
      change,
      untilEqual,
      expectEqual,
    }) => {
      await add(purchases);
      const first = await open();
      await first.once([organizationId]);
      await first.close();
      const before = publishedFiles(folder);
      const build = waitingBuilds();
      const maxLogRecords = kind === 'a compaction' ? 50 : 1_000_000;
      const worker = await open({ maxLogRecords, replace: build.replace });
      const stop = follow(worker);
      await change(100);
      await untilEqual();
      const building =
        kind === 'a rebuild' ? worker.repairsFor(organizationId).rebuild() : Promise.resolve();
      await build.begun;
      for (let round = 0; round < 3; round += 1) {
        await change(150);
        await add(5);
        await database.pool.query('delete from purchases where id % 50 = $1', [round]);
        await untilEqual();
      }
      expect(publishedFiles(folder)).toEqual(before);
      build.end();
      await building;
      while (publishedFiles(folder)?.base === before?.base) await sleep(5);
      await untilEqual();
      await change();
      await untilEqual();
      await stop();
      await expectEqual();
    },
  );

  it('are not lost by many compactions beside writers', async ({
    database,
    open,
    folder,
    add,
    untilEqual,
    expectEqual,
  }) => {
    await add(purchases);
    const worker = await open({ maxLogRecords: 10 });
    const stop = follow(worker);
    const bases = new Set<string | null>();
    for (let round = 0; bases.size < 5; round += 1) {
      await database.pool.query(
        `update purchases set purchase_value_in_cents = $1,
           created_at = created_at + interval '1 day' where id % 13 = $1 % 13`,
        [round],
      );
      if (round % 3 === 0) await add(2);
      await database.pool.query('delete from purchases where id % 101 = $1 % 101', [round]);
      bases.add(publishedFiles(folder)?.base ?? null);
    }
    await untilEqual();
    await stop();
    await expectEqual();
  });

  it('that exceed a tick are added by a build, and those meanwhile follow', async ({
    open,
    organizationId,
    folder,
    add,
    change,
    untilEqual,
    expectEqual,
    reports,
  }) => {
    await add(purchases);
    const first = await open();
    await first.once([organizationId]);
    await first.close();
    const before = publishedFiles(folder);
    const build = waitingBuilds();
    const stop = follow(await open({ maxTickChanges: 100, replace: build.replace }));
    await change();
    await build.begun;
    expect(reports.at(-1)?.state).toBe('catching up');
    expect(publishedFiles(folder)).toEqual(before);
    await change(50);
    build.end();
    await untilEqual();
    await stop();
    await expectEqual();
  });

  it('of purchases of any age replace the rows of the base', async ({
    database,
    directory,
    open,
    engine,
    organizationId,
    folder,
    add,
  }) => {
    await add(6_000);
    const worker = await open({ loadChunkRows: 2_500 });
    await worker.once([organizationId]);
    const before = publishedFiles(folder);
    const postgres = createPostgresEngine(database.pool);
    const expectSame = async () => {
      await worker.once([organizationId]);
      await untilShown(engine, directory, organizationId);
      const page = { filters: {}, limit: 1_000_000 };
      const stats = { filters: {}, groupLimit: 10 };
      expect((await engine.list(organizationId, page)).result).toEqual(
        (await postgres.list(organizationId, page)).result,
      );
      expect((await engine.stats(organizationId, stats)).result).toEqual(
        (await postgres.stats(organizationId, stats)).result,
      );
    };
    const { rows } = await database.pool.query('select min(id)::int as first from purchases');
    const place = `(id - ${rows[0].first})`;
    await expectSame();
    for (const condition of [
      `${place} = 17`,
      `${place} between 3000 and 3100`,
      `${place} % 997 = 0`,
      `${place} % 13 = 0`,
      `${place} in (0, 5999)`,
      'true',
    ]) {
      await database.pool.query(
        `update purchases set purchase_value_in_cents = purchase_value_in_cents + 1,
           created_at = created_at + interval '1 hour', utm_source = 'changed' where ${condition}`,
      );
      await expectSame();
    }
    await database.pool.query(`delete from purchases where ${place} % 997 = 0`);
    await database.pool.query(
      `insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
       select id + 1994, organization_id, customer_id, 1 from purchases where ${place} = 998
       on conflict do nothing`,
    );
    await expectSame();
    expect(publishedFiles(folder)).toEqual(before);
  });
});
