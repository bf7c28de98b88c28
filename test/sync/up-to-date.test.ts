import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import PQueue from 'p-queue';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { withConnection } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { readUpToDate, writeUpToDate } from '../../src/purchase-store/up-to-date.ts';
import { sendWorkerRequest } from '../../src/purchase-store/worker-requests.ts';
import { currentSnapshot, readChangeLog } from '../../sync/capture/change-log.ts';
import type { Replicator } from '../../sync/schedule/replicator.ts';
import { createScheduler, type Scheduler } from '../../sync/schedule/scheduler.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Program, runProgram } from '../support/program.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('what is up to date', { timeout: 120_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let organizations: bigint[];
  const programs: Program[] = [];

  beforeEach(async () => {
    database = await createTestDatabase();
    database.pool.on('error', () => {});
    directory = await temporaryDirectory();
    organizations = [await addOrganization(database.pool), await addOrganization(database.pool)];
    for (const organization of organizations) await buy(organization);
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) await program.end('SIGKILL');
    await database.drop();
    await directory.remove();
  });

  const buy = async (organization: bigint) =>
    addPurchase(database.pool, organization, {
      customer_id: await addCustomer(database.pool, organization),
    });
  /** A reader looks once a second at what a worker says is up to date. */
  const patiently = { timeout: 50_000 };
  const startWorker = (shard: string, pollIntervalMs = 50): Program => {
    const program = runProgram('sync/main.ts', ['run', '--shard', shard], {
      DATABASE_URL: database.url,
      DATA_DIR: directory.path,
      SYNC_POLL_INTERVAL_MS: String(pollIntervalMs),
    });
    programs.push(program);
    return program;
  };
  const published = (organization: bigint) =>
    readPublished(organizationDirectory(directory.path, organization));
  const instantOf = (organization: bigint, file = published(organization)?.file) =>
    file === undefined ? null : readUpToDate(directory.path).instantOf(organization, file);
  const untilUpToDate = async (organization: bigint, since: bigint): Promise<bigint> => {
    for (; ; await sleep(10)) {
      const instant = instantOf(organization);
      if (instant !== null && instant > since) return instant;
    }
  };

  it('is not told by what cannot be looked at, which ends nobody', async () => {
    const told = join(directory.path, 'purchases', 'up-to-date');
    await mkdir(told, { recursive: true });
    await symlink('loop.json', join(told, 'loop.json'));
    expect(readUpToDate(directory.path).instantOf(1n, 'generation.duckdb')).toBeNull();
  });

  it('is told by the worker of each shard, and stays true when one is killed', async () => {
    const [one, other] = organizations as [bigint, bigint];
    const workers = [startWorker('1/2'), startWorker('2/2')];
    const first = await untilUpToDate(one, 0n);
    await untilUpToDate(other, first);
    await untilUpToDate(one, first);
    await workers[Number(one % 2n)]?.end('SIGKILL');
    const last = instantOf(one) as bigint;
    await untilUpToDate(other, instantOf(other) as bigint);
    await buy(one);
    expect(instantOf(one)).toBe(last);
    // Of a generation that is not served any more nothing is said.
    const before = published(one)?.file;
    startWorker(`${(one % 2n) + 1n}/2`);
    await untilUpToDate(one, last);
    expect(published(one)?.purchases).toBe(2);
    expect(instantOf(one, before)).toBeNull();
  });

  it('keeps nobody from what is newer, whatever a worker that is gone said last', async () => {
    const [one] = organizations as [bigint];
    const worker = startWorker('1/1');
    await untilUpToDate(one, 0n);
    const reader = await createTestDuckDBEngine(directory.path);
    const count = async () =>
      (await reader.stats(one, { filters: {}, groupLimit: 1 })).result.purchaseCount;
    try {
      expect(await count()).toBe(1n);
      await worker.end('SIGKILL');
      const asOf = (instantOf(one) as bigint) + 3_600_000_000n;
      const generations = new Map([[one, published(one)?.file as string]]);
      writeUpToDate(directory.path, 'of another shard', { asOf, generations });
      while ((await reader.freshness(one)) !== asOf) await sleep(10);
      await buy(one);
      startWorker('1/1');
      while ((await count()) !== 2n) await sleep(10);
    } finally {
      await reader.close();
    }
  });

  it('never goes back in time, however often the file is rebuilt', async () => {
    const [one] = organizations as [bigint];
    const worker = await createTestWorker(database.pool, directory.path);
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    const reader = await createTestDuckDBEngine(directory.path);
    let asOf = await untilUpToDate(one, 0n);
    let isOver = false;
    const watching = (async () => {
      while (!isOver) {
        const now = (await reader.freshness(one)) ?? 0n;
        expect(now).toBeGreaterThanOrEqual(asOf);
        asOf = now;
        await sleep(1);
      }
    })();
    // Its failure is reported when it is awaited.
    watching.catch(() => {});
    try {
      for (let rebuilds = 0; rebuilds < 20; rebuilds += 1) {
        const before = published(one)?.file;
        await worker.repairsFor(one).rebuild();
        expect(published(one)?.file).not.toBe(before);
        // Claimed to be of a later instant: whatever replaces it next must not be older.
        await untilUpToDate(one, asOf);
      }
    } finally {
      isOver = true;
      stop.abort();
      await Promise.all([watching, running]);
      await reader.close();
      await worker.close();
    }
  });

  it('never goes back in time where a run began before the last look at the change log', async () => {
    const [one] = organizations as [bigint];
    const worker = await createTestWorker(database.pool, directory.path);
    const reader = await createTestDuckDBEngine(directory.path);
    try {
      await worker.syncAll();
      const first = published(one) as PublishedGeneration;
      // A look that ended before the next run took its snapshot, and after that run had begun.
      const asOf = first.asOf + 60_000_000n;
      writeUpToDate(directory.path, '1-of-1', { asOf, generations: new Map([[one, first.file]]) });
      await expect.poll(() => reader.freshness(one), patiently).toBe(asOf);
      await buy(one);
      await worker.syncAll();
      expect(published(one)?.asOf).toBeLessThan(asOf);
      await expect
        .poll(
          async () => (await reader.stats(one, { filters: {}, groupLimit: 1 })).result,
          patiently,
        )
        .toMatchObject({ purchaseCount: 2n });
      expect(await reader.freshness(one)).toBe(asOf);
    } finally {
      await reader.close();
      await worker.close();
    }
  });

  it('is looked at long before its time where somebody waits', async () => {
    const [one, other] = organizations as [bigint, bigint];
    startWorker('1/1', 60_000);
    // Between loading, publishing and telling there is a look each, a minute apart.
    const asking = setInterval(() => sendWorkerRequest(directory.path, 'refresh', one), 200);
    try {
      await untilUpToDate(other, await untilUpToDate(one, 0n));
      await buy(one);
      while (published(one)?.purchases !== 2) await sleep(10);
    } finally {
      clearInterval(asking);
    }
  });

  it('is nothing of which the log was pruned before anybody looked', async () => {
    const [one] = organizations as [bigint];
    const since = await currentSnapshot(database.pool);
    expect((await readChangeLog(database.pool, since, [])).organizations).toEqual([]);
    await buy(one);
    expect((await readChangeLog(database.pool, since, [])).organizations).toEqual([one]);
    const prune = (organization: bigint) =>
      database.pool.query(
        `with gone as (delete from purchase_changes)
         insert into purchase_change_pruning
         values ($1, pg_snapshot_xmax(pg_current_snapshot()))`,
        [organization],
      );
    await prune(one);
    const { organizations: found, snapshot } = await readChangeLog(database.pool, since, []);
    expect(found).toEqual([one]);
    await buy(one);
    let next = await readChangeLog(database.pool, snapshot, []);
    // Transactions elsewhere in the cluster may hold a snapshot's xmin back for a while.
    await vi.waitFor(
      async () => {
        next = await readChangeLog(database.pool, next.snapshot, []);
        expect(next.organizations).toEqual([]);
      },
      { timeout: 60_000 },
    );
  });

  it('is as of a moment before the look, whatever transactions are under way', async () => {
    const [one] = organizations as [bigint];
    const since = await currentSnapshot(database.pool);
    await withConnection(database.pool, async (slow) => {
      await slow.query('begin');
      await addPurchase(slow, one, { customer_id: await addCustomer(database.pool, one) });
      const during = await readChangeLog(database.pool, since, []);
      expect(during.organizations).toEqual([]);
      await slow.query('commit');
      const after = await readChangeLog(database.pool, during.snapshot, []);
      expect(after.organizations).toEqual([one]);
      expect(after.asOf).toBeGreaterThan(during.asOf);
      expect(after.source).toBe(during.source);
    });
  });
});

describe('an organization that is published seldom, for copying it takes long', () => {
  let runs: number;
  let task: Scheduler;
  let isFailing: boolean;

  beforeEach(async () => {
    runs = 0;
    isFailing = false;
    // What a run of a large organization comes to; the task asks for nothing else.
    const sync = {
      hasUnfinishedBuild: async () => false,
      publishedGeneration: () => 'generation.duckdb',
      run: async () => {
        runs += 1;
        if (isFailing) throw new Error('no');
        return { kind: 'published', publication: { copyMs: 3_600_000 }, sortReason: null };
      },
    };
    task = createScheduler({
      replicator: sync as unknown as Replicator,
      queues: { changes: new PQueue(), builds: new PQueue() },
      reporter: { report: () => {}, settled: async () => {} },
      signal: new AbortController().signal,
      log: pino({ level: 'silent' }),
      onFailure: () => {},
    });
    expect(await runsWhenDue()).toBe(1);
    expect(task.upToDateGeneration()).toBe('generation.duckdb');
    task.noticeChanges();
    expect(task.upToDateGeneration()).toBeNull();
    expect(await runsWhenDue()).toBe(1);
  });

  const runsWhenDue = async () => {
    task.startDueWork();
    while (task.isBusy()) await sleep(1);
    return runs;
  };

  it('is published at once where somebody waits, but not for everybody in a row', async () => {
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    task.noticeChanges();
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
  });

  it('is not hurried by those who found that nothing was outstanding', async () => {
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    task.noticeChanges();
    expect(await runsWhenDue()).toBe(2);
  });

  it('is tried again in its own time once it has failed', async () => {
    isFailing = true;
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    task.requestRefresh();
    expect(await runsWhenDue()).toBe(2);
    expect(task.upToDateGeneration()).toBeNull();
  });
});
