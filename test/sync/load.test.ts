import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { type OrganizationReport, readReport } from '../../sync/status/report.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { runProgram } from '../support/program.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('building an organization’s file', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: TestWorker;
  let organization: bigint;
  let customer: bigint;
  let reports: OrganizationReport[];

  const openWorker = async () => {
    reports = [];
    worker = await createTestWorker(database.pool, directory.path, {
      loadChunkRows: 40,
      onReport: (_organizationId, report) => reports.push(report),
    });
  };
  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    await openWorker();
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
  });
  afterEach(async () => {
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  /** Purchases of which many share an instant, some at the calendar's ends, with awkward text. */
  const addMany = (count: number) =>
    database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, created_at,
         order_number, utm_source, utm_term, coupons)
       select $1, $2, n, case
           when n % 50 = 0 then '0001-01-01T00:00:00Z'
           when n % 50 = 1 then '9999-12-31T23:59:59.999999Z'
           else '2025-01-01'::timestamptz + n / 7 * interval '1 microsecond' end,
         (array['', null, 'a,b', 'say "hi"', E'two\\r\\nlines', E'\\\\N', E'tab\\tand \\\\', '日本', 'NULL'])[1 + n % 9],
         'source ' || n % 5, case when n % 3 = 0 then '' end,
         case when n % 4 = 0 then '[{"code": "A\\"B", "value": 10.5}]'::jsonb end
       from generate_series(1, $3) as n`,
      [organization, customer, count],
    );
  const expectEqual = async () =>
    expect(await publishedPurchases(directory.path, organization)).toEqual(
      await storedPurchases(database.pool, organization),
    );
  /** Moves, replaces, adds and removes purchases until told to stop. */
  const writeMeanwhile = () => {
    let isWriting = true;
    const writing = (async () => {
      for (let round = 0; isWriting; round += 1) {
        await database.pool.query(
          `update purchases set created_at = '2025-01-01'::timestamptz + random() * interval '1 ms',
             purchase_value_in_cents = $1 where id % 97 = $1 % 97`,
          [round],
        );
        await database.pool.query('delete from purchases where id % 1009 = $1', [round % 1009]);
        await addMany(3);
        // The same ids again: each is in the log more than once.
        await database.pool.query(
          `insert into purchases (id, organization_id, customer_id, purchase_value_in_cents)
           overriding system value values (1000000, $1, $2, $3)
           on conflict (id) do update set purchase_value_in_cents = excluded.purchase_value_in_cents`,
          [organization, customer, round],
        );
      }
    })();
    return async () => {
      isWriting = false;
      await writing;
    };
  };

  it('reads every value as it is, in chunks that end anywhere', async () => {
    await addMany(401);
    await worker.syncAll();
    await expectEqual();
    expect(reports.at(-1)).toMatchObject({ activity: 'following', failure: null });
  });

  it('reads a table whose last chunk is full', async () => {
    await addMany(80);
    await worker.syncAll();
    await expectEqual();
  });

  it('loads nothing, and then follows changes', async () => {
    await worker.syncAll();
    await addMany(10);
    await worker.syncAll();
    await expectEqual();
  });

  it('takes in what is written while it reads', async () => {
    await addMany(2_000);
    const stop = writeMeanwhile();
    await worker.syncAll();
    await stop();
    await worker.syncAll();
    await expectEqual();
  });

  it('goes on where it was stopped', async () => {
    await addMany(4_000);
    const stopping = new AbortController();
    const running = worker.run(stopping.signal);
    while (!reports.some(({ progress }) => (progress?.loaded ?? 0) > 0)) await sleep(5);
    stopping.abort();
    await worker.close();
    await running;
    await database.pool.query('delete from purchases where id % 5 = 0');
    await openWorker();
    await worker.syncAll();
    const resumed = reports.find(({ progress }) => progress !== null)?.progress;
    expect(resumed?.loaded).toBeGreaterThan(0);
    await expectEqual();
  });

  it('starts over where the table was truncated meanwhile', async () => {
    await addMany(4_000);
    const load = worker.syncAll().catch(() => {});
    while (!reports.some(({ activity }) => activity === 'loading')) await sleep(5);
    await database.pool.query('truncate purchases');
    await addMany(30);
    await load;
    await worker.syncAll();
    await expectEqual();
  });

  it('rebuilds beside the file that serves, which follows changes meanwhile', async () => {
    await addMany(2_000);
    await worker.syncAll();
    const stopping = new AbortController();
    const running = worker.run(stopping.signal);
    const stop = writeMeanwhile();
    const generations = new Set<string | undefined>();
    let isBuilt = false;
    const rebuild = worker
      .repairsFor(organization)
      .rebuild()
      .finally(() => {
        isBuilt = true;
      });
    while (!isBuilt) {
      const published = readPublished(organizationDirectory(directory.path, organization));
      expect(published?.purchases).toBeGreaterThan(1_500);
      generations.add(published?.file);
      await sleep(20);
    }
    await rebuild;
    await stop();
    stopping.abort();
    await running;
    expect(generations.size).toBeGreaterThan(1);
    expect(reports.map(({ activity }) => activity)).toContain('rebuilding');
    await worker.syncAll();
    await expectEqual();
  });

  it('leaves no file of a build that was broken off before it began', async () => {
    await addMany(10);
    await worker.syncAll();
    await worker.close();
    const folder = organizationDirectory(directory.path, organization);
    for (const [name, content] of [
      ['next.duckdb', ''],
      ['next.duckdb', 'no database'],
      ['base.unfinished.duckdb', ''],
      ['base.unfinished.duckdb', 'no database'],
    ] as const) {
      const next = join(folder, name);
      await writeFile(next, content);
      await openWorker();
      const stop = new AbortController();
      const running = worker.run(stop.signal);
      while (existsSync(next)) await sleep(10);
      stop.abort();
      await worker.close();
      await running;
    }
    await openWorker();
    await expectEqual();
  });

  it('goes on after a SIGKILL in the middle', { timeout: 120_000 }, async () => {
    await addMany(400_000);
    const environment = { DATABASE_URL: database.url, DATA_DIR: directory.path };
    const killed = runProgram('sync/main.ts', [], environment);
    const folder = organizationDirectory(directory.path, organization);
    while ((readReport(folder)?.progress?.loaded ?? 0) === 0) await sleep(10);
    await killed.end('SIGKILL');
    const before = readReport(folder)?.progress?.loaded ?? 0;
    const once = runProgram('sync/main.ts', ['once'], environment);
    expect(await once.exited(), once.output()).toBe(0);
    expect(before).toBeGreaterThan(0);
    expect(once.output()).toMatch(/continuing an interrupted load/);
    const { rows } = await database.pool.query('select count(*)::int as count from purchases');
    expect(readPublished(folder)?.purchases).toBe(rows[0].count);
  });
});
