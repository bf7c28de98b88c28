import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import { reserveBytes } from '../../src/process/disk-space.ts';
import { jsonOf } from '../../src/process/json-file.ts';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { mergedBasePath } from '../../sync/builds/base-file.ts';
import type { OrganizationReport } from '../../sync/organization-report.ts';
import { recordedLog } from '../http/recorded-log.ts';
import { mountDisk, withUnnoticedFullDisk } from '../support/disk.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createGate, heldBuilds, withBuilder } from '../support/held-builds.ts';
import { publishedFiles, publishedLog } from '../support/published-files.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { follow, type TestWorkerOptions } from '../support/sync.ts';

const purchases = 400;

const it = isolatedTest
  /** An organization whose worker has bases, which it loads 40 purchases at a time. */
  .extend('built', async ({ database, organizationId: id, folder, expectEqual, openWorker }) => {
    const { pool } = database;
    const customer = await addCustomer(pool, id);
    const reports: OrganizationReport[] = [];
    const open = (options: TestWorkerOptions = {}) =>
      openWorker({
        loadChunkRows: 40,
        maxPurchasesWithoutBase: 0,
        onReport: (of, report) => of === id && reports.push(report),
        ...options,
      });
    const openSynced = async (options: TestWorkerOptions = {}) => {
      const worker = await open(options);
      await worker.once([id]);
      return worker;
    };
    return {
      id,
      folder,
      reports,
      open,
      /** Opens a worker that has published the purchases. */
      openSynced,
      /** Publishes the purchases with a temporary worker. */
      sync: async (options: TestWorkerOptions = {}) => (await openSynced(options)).close(),
      files: () => publishedFiles(folder),
      expectEqual,
      /** Adds purchases, in another order than that of their creation. */
      add: (count: number) =>
        pool.query(
          `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
             order_number, utm_source)
           select $1, $2, n, '2025-01-01'::timestamptz + n * 7919 % 10007 * interval '1 minute',
             md5(n::text), 'source ' || n % 5
           from generate_series(1, $3::int) as n`,
          [id, customer, count],
        ),
      /** Changes the first purchases, or all of them. */
      change: (count: number | null = null) =>
        pool.query(
          `update purchases set order_number = md5(order_number) where id in (
             select id from purchases where organization_id = $1 order by id limit $2)`,
          [id, count],
        ),
    };
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
  const replace = withBuilder((builder) => ({
    [method]: async (...args: never[]) => {
      calls.push(Date.now());
      if (calls.length <= failures) throw new Error('no room');
      return (builder[method] as (...args: never[]) => Promise<unknown>)(...args);
    },
  }));
  return { calls, replace };
}

const filesIn = (folder: string) =>
  readdirSync(folder).filter((name) => /\.(duckdb|tsv|csv|wal)$/.test(name));

describe('a load that fails', { tags: ['slow'] }, () => {
  it('leaves what is published, is reported, and is tried again after a pause', async ({
    untilEqual,
    built,
  }) => {
    await built.add(purchases);
    await built.sync();
    const before = built.files();
    const { calls, replace } = failing('load', 2);
    const worker = await built.open({ replace });
    const stop = follow(worker);
    built.reports.length = 0;
    await expect(worker.rebuild(built.id)).rejects.toThrow('no room');
    const report = built.reports.at(-1);
    expect(report).toMatchObject({ state: 'failed', failure: { message: 'no room', attempts: 1 } });
    await built.change();
    await untilEqual();
    expect(built.files()).toEqual(before);
    while (built.reports.at(-1)?.state !== 'live') await sleep(10);
    await stop();
    const [, second = 0, third = 0] = calls;
    const retries = built.reports.flatMap(({ failure }) => failure ?? []);
    const retryAt = (attempts: number) =>
      Date.parse(retries.find((each) => each.attempts === attempts)?.retryAt ?? '');
    // The clock of the pause and that of the report differ by a rounding.
    expect(second).toBeGreaterThanOrEqual(retryAt(1) - 5);
    expect(third).toBeGreaterThanOrEqual(retryAt(2) - 5);
    expect(calls).toHaveLength(3);
    expect(built.files()?.base).not.toBe(before?.base);
    await untilEqual();
  });

  it.for(['a load', 'a rebuild'])(
    'to replace CURRENT leaves what is published, and succeeds later: %s',
    async (kind, { built }) => {
      await built.add(purchases);
      const worker = await built.open();
      if (kind === 'a rebuild') await worker.once([built.id]);
      const before = built.files();
      const obstacle = `${currentFile(built.folder)}.tmp`;
      mkdirSync(obstacle, { recursive: true });
      const load = () => (kind === 'a load' ? worker.once([built.id]) : worker.rebuild(built.id));
      await expect(load()).rejects.toThrow();
      expect(built.files()).toEqual(before);
      const published = before === null ? [] : [before.base, before.log];
      expect(filesIn(built.folder).sort()).toEqual([...published, 'base.unfinished.duckdb'].sort());
      rmdirSync(obstacle);
      await load();
      expect(built.files()?.log).not.toBe(before?.log);
      await built.expectEqual();
    },
  );

  it('because of a table that was rewritten meanwhile removes its base, and starts over', async ({
    database,
    built,
  }) => {
    await built.add(purchases);
    let rewriting: Promise<unknown> | null = null;
    const worker = await built.open({
      loadChunkRows: 10,
      onReport: (_, { progress }) => {
        if (progress !== null) rewriting ??= database.pool.query('vacuum full purchases');
      },
    });
    await expect(worker.once([built.id])).rejects.toThrow('The change log cannot be read');
    await rewriting;
    expect(filesIn(built.folder)).toEqual([]);
    await worker.once([built.id]);
    await built.expectEqual();
  });

  it('resumes, and the change log is retained for it', async ({ database, otherShop, built }) => {
    await built.add(purchases);
    let isInterrupting = true;
    const worker = await built.open({
      replace: withBuilder((builder) => ({
        load: (organizations, build) =>
          builder.load(organizations, {
            ...build,
            onProgress(progress) {
              build.onProgress(progress);
              if (isInterrupting && progress.loaded > 200) throw new Error('interrupted');
            },
          }),
      })),
    });
    const entries = async () => {
      const { rows } = await database.pool.query(
        'select count(*)::int as count from purchase_changes where organization_id = $1',
        [built.id],
      );
      return rows[0].count as number;
    };
    await worker.once([otherShop.organizationId]);
    await expect(worker.once([built.id])).rejects.toThrow('interrupted');
    expect(filesIn(built.folder)).toContain('base.unfinished.duckdb');
    await built.change();
    const changed = await entries();
    expect(changed).toBeGreaterThanOrEqual(purchases);
    // A pass prunes what nobody needs.
    await worker.once([otherShop.organizationId]);
    expect(await entries()).toBeGreaterThanOrEqual(purchases);
    built.reports.length = 0;
    isInterrupting = false;
    await worker.once([built.id]);
    expect(built.reports.flatMap(({ progress }) => progress ?? [])[0]?.loaded).toBeGreaterThan(200);
    await built.expectEqual();
    await worker.once([built.id]);
    expect(await entries()).toBe(0);
  });

  it('leave no files behind after a kill, once a worker starts', async ({ built }) => {
    await built.add(purchases);
    await built.sync();
    const published = filesIn(built.folder).sort();
    const left = ['base-0123456789ab.duckdb', 'log-0123456789ab.tsv', 'load-a.tsv'].map((name) =>
      join(built.folder, name),
    );
    const merged = mergedBasePath(built.folder);
    for (const path of [...left, merged, `${merged}.wal`]) writeFileSync(path, '');
    await built.sync();
    expect(filesIn(built.folder).sort()).toEqual(published);
    await built.expectEqual();
  });

  it.for(['a rebuild', 'a compaction'])(
    'on a disk that becomes full at any step leaves what is published, and succeeds later: %s',
    async (kind, { disk, skip, built }) => {
      if (!disk.canBeFilled) skip();
      const folder = organizationDirectory(disk.path, built.id);
      const { log, lines } = recordedLog();
      // Without saved deltas, which would be among the files.
      const limits = { loadChunkRows: 2_000, minUnsavedChanges: 100_000 };
      const onDisk = { dataDirectory: disk.path, ...limits };
      const build = async () => {
        if (kind === 'a compaction') return built.sync({ ...onDisk, log, maxLogRecords: 0 });
        const worker = await built.open({ ...onDisk, log });
        await worker.rebuild(built.id).finally(worker.close);
      };
      await built.add(8_000);
      await built.sync(onDisk);
      let failures = 0;
      for (let freeBytes = 2 ** 18; ; freeBytes += 2 ** 18) {
        await built.change(500);
        await built.sync(onDisk);
        const before = publishedFiles(folder);
        lines.length = 0;
        await disk.fill(freeBytes);
        // A compaction that fails is no failure of the worker.
        await withUnnoticedFullDisk(build).catch(() => {});
        await disk.free();
        if (!lines.some((line) => line.includes('The disk that holds DATA_DIR is full.'))) {
          expect(publishedFiles(folder)?.base).not.toBe(before?.base);
          break;
        }
        failures += 1;
        expect(publishedFiles(folder)).toEqual(before);
        if (kind === 'a compaction') {
          expect(filesIn(folder).sort()).toEqual([before?.base, before?.log]);
        }
        await built.expectEqual(disk.path);
      }
      expect(failures).toBeGreaterThan(1);
      // The look at the free space alone would refuse more.
      expect(failures * 2 ** 18).toBeLessThan(reserveBytes(disk.path));
      const { base, log: published } = publishedFiles(folder) ?? {};
      expect(filesIn(folder).sort()).toEqual([base, published]);
      await built.change();
      await built.sync(onDisk);
      await built.expectEqual(disk.path);
    },
  );
});

describe('a load', { tags: ['slow'] }, () => {
  it('is completed although the worker of another data folder prunes the change log', async ({
    directory,
    built,
  }) => {
    await built.add(purchases);
    const other = await built.openSynced({ dataDirectory: join(directory, 'other') });
    const begun = createGate();
    const worker = await built.open({
      loadChunkRows: 5,
      onReport: (_, { progress }) => progress !== null && begun.resolve(),
    });
    const loading = worker.once([built.id]);
    await begun.promise;
    await built.change();
    await other.once([built.id]);
    await loading;
    await built.expectEqual();
  });
});

describe('a load of an organization whose id another one has at its end', () => {
  it('is discarded, and the other one is loaded', { tags: ['slow'] }, async ({
    database: { pool },
    directory,
    built,
  }) => {
    await built.add(purchases);
    const [begun, ended] = [createGate(), createGate()];
    const worker = await built.open({
      replace: withBuilder((builder) => ({
        async load(group, build) {
          const prepared = await builder.load(group, build);
          if (group[0]?.id !== built.id) return prepared;
          begun.resolve();
          await ended.promise;
          return prepared;
        },
      })),
    });
    const stop = follow(worker);
    await begun.promise;
    await pool.query('update organizations set identity = gen_random_uuid() where id = $1', [
      built.id,
    ]);
    const folder = organizationDirectory(directory, await addOrganization(pool));
    // The worker then knows both.
    while (publishedFiles(folder) === null) await sleep(20);
    ended.resolve();
    const { rows } = await pool.query('select identity from organizations where id = $1', [
      built.id,
    ]);
    while (built.files()?.source.endsWith(rows[0].identity) !== true) await sleep(20);
    await stop();
    await built.expectEqual();
  });
});

describe('a rebuild', { tags: ['slow'] }, () => {
  it('that is requested during a compaction follows it, once for all requests', async ({
    built,
  }) => {
    await built.add(purchases);
    await built.sync();
    await built.change(20);
    await built.sync();
    const { replace, kinds, begun, end } = heldBuilds('load', 'catchUp', 'compact');
    const worker = await built.open({ maxLogRecords: 10, replace });
    const compacting = worker.once([built.id]);
    await begun;
    const rebuild = () => worker.rebuild(built.id);
    const rebuilding = [rebuild(), rebuild()];
    const { base } = built.files() ?? {};
    expect(kinds).toEqual(['compact']);
    end();
    await compacting;
    await Promise.all(rebuilding);
    expect(kinds).toEqual(['compact', 'load']);
    expect(built.files()?.base).not.toBe(base);
    await built.expectEqual();
  });

  it('that is requested during a load ends with it', async ({ built }) => {
    await built.add(purchases);
    const { replace, kinds, begun, end } = heldBuilds('load', 'catchUp', 'compact');
    const worker = await built.open({ replace });
    const loading = worker.once([built.id]);
    await begun;
    const rebuilding = worker.rebuild(built.id);
    end();
    await Promise.all([loading, rebuilding]);
    expect(kinds).toEqual(['load']);
    await built.expectEqual();
  });
});

describe('a compaction that fails', { tags: ['slow'] }, () => {
  it('is no failure of the organization, and is tried again after a pause', async ({
    untilEqual,
    built,
  }) => {
    await built.add(purchases);
    const { calls, replace } = failing('compact', 1);
    const { log, lines } = recordedLog();
    const worker = await built.openSynced({ replace, log, maxLogRecords: 10 });
    const before = built.files();
    const stop = follow(worker);
    await built.change();
    while (calls.length === 0) await sleep(5);
    await built.change();
    await untilEqual();
    if (calls.length === 1) expect(built.files()).toEqual(before);
    while (built.files()?.base === before?.base) {
      await built.change(1);
      await sleep(20);
    }
    await untilEqual();
    // The worker may begin another compaction before it stops.
    await vi.waitFor(() => expect(built.reports.at(-1)?.state).toBe('live'), 120_000);
    await stop();
    expect(built.reports.flatMap(({ failure }) => failure ?? [])).toEqual([]);
    const failed = lines
      .filter((line) => line.includes('retryInMs'))
      .map((line) => JSON.parse(line));
    expect(failed).toMatchObject([{ msg: 'no room', attempts: 1 }]);
    const [first = 0, second = 0] = calls;
    expect(second - first).toBeGreaterThanOrEqual(failed[0].retryInMs - 5);
  });
});

describe('a compaction', { tags: ['slow'] }, () => {
  it.for([
    ['records of the log', 100, 10],
    ['2 % of the base', 1_000, 20],
  ] as const)('is due beyond a number of %s', async ([, count, limit], { built }) => {
    await built.add(count);
    const worker = await built.openSynced({ maxLogRecords: 10 });
    const before = built.files();
    await built.change(limit);
    await worker.once([built.id]);
    expect(built.files()).toEqual(before);
    await built.change(1);
    await worker.once([built.id]);
    const after = built.files();
    expect(after?.base).not.toBe(before?.base);
    expect(readFileSync(publishedLog(built.folder), 'utf8')).not.toMatch(/^[ud]/m);
    expect(filesIn(built.folder).sort()).toEqual([after?.base, after?.log]);
    await built.expectEqual();
  });

  it('of few purchases creates no base: the log keeps one record of each', async ({
    database,
    untilEqual,
    built,
  }) => {
    await built.add(50);
    const worker = await built.openSynced({ maxPurchasesWithoutBase: 100, maxLogRecords: 100 });
    await untilEqual();
    const before = built.files();
    await built.change();
    await worker.once([built.id]);
    await database.pool.query('delete from purchases where id % 5 = 0');
    await built.change();
    await worker.once([built.id]);
    expect(built.files()).toEqual(before);
    await built.change();
    await worker.once([built.id]);
    const records = readFileSync(publishedLog(built.folder), 'utf8').match(/^[ud]/gm);
    expect(records).toEqual(new Array(40).fill('u'));
    expect(built.files()?.base).toBeNull();
    expect(filesIn(built.folder)).toEqual([built.files()?.log]);
    await untilEqual();
    await built.expectEqual();
  });

  it('creates the first base of an organization whose purchases have become many', async ({
    untilEqual,
    built,
  }) => {
    await built.add(10);
    const worker = await built.openSynced({ maxPurchasesWithoutBase: 20, maxLogRecords: 20 });
    await untilEqual();
    expect(built.files()?.base).toBeNull();
    await built.add(25);
    await worker.once([built.id]);
    expect(built.files()).toMatchObject({ base: expect.any(String), purchases: 35 });
    await untilEqual();
  });

  it('is also due after a start, without a change', async ({ untilEqual, built }) => {
    await built.add(purchases);
    await built.sync();
    await built.change();
    await built.sync();
    const before = built.files();
    const stop = follow(await built.open({ maxLogRecords: 10 }));
    while (built.files()?.base === before?.base) await sleep(10);
    await stop();
    await untilEqual();
  });
});

describe('changes', { tags: ['slow'] }, () => {
  it.for(['a compaction', 'a rebuild'] as const)(
    'are published during %s, and none is lost when the files are replaced',
    async (kind, { database, untilEqual, built }) => {
      await built.add(purchases);
      await built.sync();
      const before = built.files();
      const build = heldBuilds('load', 'catchUp', 'compact');
      const maxLogRecords = kind === 'a compaction' ? 50 : 1_000_000;
      const worker = await built.open({ maxLogRecords, replace: build.replace });
      const stop = follow(worker);
      await built.change(100);
      await untilEqual();
      const building = kind === 'a rebuild' ? worker.rebuild(built.id) : Promise.resolve();
      await build.begun;
      for (let round = 0; round < 3; round += 1) {
        await built.change(150);
        await built.add(5);
        await database.pool.query('delete from purchases where id % 50 = $1', [round]);
        await untilEqual();
      }
      expect(built.files()).toEqual(before);
      build.end();
      await building;
      while (built.files()?.base === before?.base) await sleep(5);
      await untilEqual();
      await built.change();
      await untilEqual();
      await stop();
      await built.expectEqual();
    },
  );
});
