import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { withConnection } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { readUpToDate, writeUpToDate } from '../../src/purchase-store/up-to-date.ts';
import { sendWorkerRequest } from '../../src/purchase-store/worker-requests.ts';
import { currentSnapshot, readChangeLog } from '../../sync/capture/change-log.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = isolatedTest
  .extend('buy', ({ database: { pool } }) => async (organization: bigint) => {
    const customer = await addCustomer(pool, organization);
    await addPurchase(pool, organization, { customer_id: customer });
  })
  /** Two organizations with a purchase each. */
  .extend('organizations', async ({ database: { pool }, buy }): Promise<[bigint, bigint]> => {
    pool.on('error', () => {});
    const [one, other] = [await addOrganization(pool), await addOrganization(pool)];
    for (const organization of [one, other]) await buy(organization);
    return [one, other];
  })
  .extend(
    'startWorker',
    ({ program }) =>
      (shard: string, pollIntervalMs = 50) =>
        program('sync/main.ts', ['run', '--shard', shard], {
          SYNC_POLL_INTERVAL_MS: String(pollIntervalMs),
        }),
  )
  .extend(
    'published',
    ({ directory }) =>
      (organization: bigint) =>
        readPublished(organizationDirectory(directory, organization)),
  )
  .extend(
    'instantOf',
    ({ directory, published }) =>
      (organization: bigint, file = published(organization)?.file) =>
        file === undefined ? null : readUpToDate(directory).instantOf(organization, file),
  )
  .extend(
    'untilUpToDate',
    ({ instantOf }) =>
      async (organization: bigint, since: bigint): Promise<bigint> => {
        for (; ; await sleep(10)) {
          const instant = instantOf(organization);
          if (instant !== null && instant > since) return instant;
        }
      },
  );

/** The API reads the instants once a second. */
const patiently = { timeout: 50_000 };

describe('the up-to-date instant of a generation', { timeout: 120_000 }, () => {
  it('is unknown if its file cannot be read', async ({ directory }) => {
    const folder = join(directory, 'purchases', 'up-to-date');
    await mkdir(folder, { recursive: true });
    await symlink('loop.json', join(folder, 'loop.json'));
    expect(readUpToDate(directory).instantOf(1n, 'generation.duckdb')).toBeNull();
  });

  it('is written by the worker of each shard, and remains correct if a worker is killed', {
    tags: ['slow'],
  }, async ({ organizations, buy, startWorker, published, instantOf, untilUpToDate }) => {
    const [one, other] = organizations;
    const workers = [startWorker('1/2'), startWorker('2/2')];
    const first = await untilUpToDate(one, 0n);
    await untilUpToDate(other, first);
    await untilUpToDate(one, first);
    await workers[Number(one % 2n)]?.end('SIGKILL');
    const last = instantOf(one) as bigint;
    await untilUpToDate(other, instantOf(other) as bigint);
    await buy(one);
    expect(instantOf(one)).toBe(last);
    // There is no instant of a generation that is no longer published.
    const before = published(one)?.file;
    startWorker(`${(one % 2n) + 1n}/2`);
    await untilUpToDate(one, last);
    expect(published(one)?.purchases).toBe(2);
    expect(instantOf(one, before)).toBeNull();
  });

  it('does not hide a newer generation, even if a former worker wrote a later instant', {
    tags: ['slow'],
  }, async ({
    directory,
    organizations,
    buy,
    startWorker,
    published,
    instantOf,
    untilUpToDate,
  }) => {
    const [one] = organizations;
    const worker = startWorker('1/1');
    await untilUpToDate(one, 0n);
    const reader = await createTestDuckDBEngine(directory);
    const count = async () =>
      (await reader.stats(one, { filters: {}, groupLimit: 1 })).result.purchaseCount;
    try {
      expect(await count()).toBe(1n);
      await worker.end('SIGKILL');
      const asOf = (instantOf(one) as bigint) + 3_600_000_000n;
      const generations = new Map([[one, published(one)?.file as string]]);
      writeUpToDate(directory, 'of another shard', { asOf, generations });
      while ((await reader.freshness(one)) !== asOf) await sleep(10);
      await buy(one);
      startWorker('1/1');
      while ((await count()) !== 2n) await sleep(10);
    } finally {
      await reader.close();
    }
  });

  it('never goes back if the file is rebuilt many times', { tags: ['slow'] }, async ({
    directory,
    organizations,
    openWorker,
    published,
    untilUpToDate,
  }) => {
    const [one] = organizations;
    const worker = await openWorker();
    const stop = follow(worker);
    const reader = await createTestDuckDBEngine(directory);
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
      for (let rebuilds = 0; rebuilds < 8; rebuilds += 1) {
        const before = published(one)?.file;
        await worker.repairsFor(one).rebuild();
        expect(published(one)?.file).not.toBe(before);
        // The next generation must not be older than this later instant.
        await untilUpToDate(one, asOf);
      }
    } finally {
      isOver = true;
      await Promise.all([watching, stop()]);
      await reader.close();
    }
  });

  it('never goes back if a run began before the last poll of the change log', {
    tags: ['slow'],
  }, async ({ directory, organizations, buy, published, openWorker }) => {
    const [one] = organizations;
    const worker = await openWorker();
    const reader = await createTestDuckDBEngine(directory);
    try {
      await worker.syncAll();
      const first = published(one) as PublishedGeneration;
      // A poll that ended after the next run began, and before that run took its snapshot.
      const asOf = first.asOf + 60_000_000n;
      writeUpToDate(directory, '1-of-1', { asOf, generations: new Map([[one, first.file]]) });
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
    }
  });

  it('is written before the next poll is due if a refresh is requested', {
    tags: ['slow'],
  }, async ({ directory, organizations, buy, startWorker, published, untilUpToDate }) => {
    const [one, other] = organizations;
    startWorker('1/1', 60_000);
    // Loading, publishing and writing the instant need a poll each. Polls are a minute apart.
    const refreshing = setInterval(() => sendWorkerRequest(directory, 'refresh', one), 200);
    try {
      await untilUpToDate(other, await untilUpToDate(one, 0n));
      await buy(one);
      while (published(one)?.purchases !== 2) await sleep(10);
    } finally {
      clearInterval(refreshing);
    }
  });

  it('is not written if the change log was pruned before a poll', async ({
    database,
    organizations,
    buy,
  }) => {
    const [one] = organizations;
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

  it('is earlier than the poll, whatever transactions are open', async ({
    database,
    organizations,
  }) => {
    const [one] = organizations;
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
