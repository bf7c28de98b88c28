import { mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, vi } from 'vitest';
import { readPurchaseStats } from '../../src/domain/purchase-stats.ts';
import { withConnection, withSnapshot } from '../../src/postgres/connection/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import {
  readTicks,
  tickPath,
  ticksDirectory,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { pollChangeLog } from '../../sync/capture/change-log.ts';
import { confirmSnapshot } from '../../sync/capture/history-token.ts';
import { takeSnapshot } from '../../sync/capture/snapshot.ts';
import { createTickPublisher } from '../../sync/files/synced-ticks.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { withBuilder } from '../support/held-builds.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { addMarker, type Marker, untilShown } from '../support/marker.ts';
import { publishedLog } from '../support/published-files.ts';
import { addOrganization, addPurchases } from '../support/shop.ts';
import { follow } from '../support/sync.ts';

const it = isolatedTest
  /** Markers in two organizations. */
  .extend('markers', async ({ database: { pool } }): Promise<[Marker, Marker]> => {
    const [one, other] = [await addOrganization(pool), await addOrganization(pool)];
    return [await addMarker(pool, one), await addMarker(pool, other)];
  })
  .extend(
    'startWorker',
    ({ program }) =>
      (shard: string) =>
        program('sync/main.ts', ['run', '--shard', shard], { SYNC_POLL_INTERVAL_MS: '50' }),
  )
  /** What a new reader shows, such as that of an API that has just started. */
  .extend('readAnew', ({ directory }) => async (marker: Marker) => {
    const engine = await createTestDuckDBEngine(directory);
    return marker.read(engine).finally(() => engine.close());
  });

/** Reads until the instant is later. */
async function untilLater(marker: Marker, ...[reader]: Parameters<Marker['read']>) {
  const before = (await reader.freshness(marker.organizationId)) ?? 0n;
  await reader.waitUntilFresh(marker.organizationId, before + 1n, AbortSignal.timeout(120_000));
}

describe('the instant that responses show', () => {
  it('moves on without changes, as long as the worker of the shard runs', {
    tags: ['slow'],
  }, async ({ markers, engine, startWorker }) => {
    const ofShard = (number: number) =>
      markers.find(({ organizationId }) => organizationId % 2n === BigInt(number - 1)) as Marker;
    const workers = [startWorker('1/2'), startWorker('2/2')];
    const [killed, running] = [ofShard(1), ofShard(2)];
    for (const marker of markers) {
      await untilShown(marker, engine);
      await untilLater(marker, engine);
    }
    await workers[0]?.end('SIGKILL');
    const last = await killed.read(engine);
    await untilLater(running, engine);
    await killed.increment();
    await running.increment();
    await untilShown(running, engine);
    await untilLater(running, engine);
    expect(await killed.read(engine)).toEqual(last);
    startWorker('1/2');
    await untilShown(killed, engine);
  });

  it('never goes back during changes and rebuilds, for old and new readers', {
    tags: ['slow'],
  }, async ({ markers, engine, openWorker, readAnew }) => {
    const [marker] = markers;
    const worker = await openWorker({ maxLogRecords: 20 });
    const stop = follow(worker);
    await untilShown(marker, engine);
    let asOf = 0n;
    let isOver = false;
    const watch = async (read: () => ReturnType<Marker['read']>) => {
      while (!isOver) {
        const before = asOf;
        const now = (await read())?.asOf ?? 0n;
        expect(now).toBeGreaterThanOrEqual(before);
        asOf = now > asOf ? now : asOf;
        await sleep(1);
      }
    };
    const watching = [watch(() => marker.read(engine)), watch(() => readAnew(marker))];
    const writing = (async () => {
      for (; !isOver; await sleep(20)) await marker.increment();
    })();
    try {
      const rebuilding = (async () => {
        for (let rebuilds = 0; rebuilds < 8; rebuilds += 1) {
          await worker.rebuild(marker.organizationId);
          await untilLater(marker, engine);
        }
      })();
      await Promise.race([rebuilding, ...watching]);
    } finally {
      isOver = true;
      await Promise.all([...watching, writing, stop()]);
    }
  });

  it('is that of the clock of Postgres again after this went back', { tags: ['slow'] }, async ({
    directory,
    markers,
    engine,
    openWorker,
    readAnew,
  }) => {
    const [marker, other] = markers;
    const first = await openWorker();
    await first.syncAll();
    await first.close();
    // The last poll was an hour before the change of the clock.
    const [tick] = readTicks(directory);
    if (tick === undefined) throw new Error('no tick is published');
    const later = tick.asOf + 3_600_000_000n;
    createTickPublisher(directory).publish({ ...tick, asOf: later });
    expect(await readAnew(marker)).toEqual({ value: 0n, asOf: later });
    expect(await marker.read(engine)).toEqual({ value: 0n, asOf: later });
    const lines: string[] = [];
    const log = createRecordedLog((line) => lines.push(line));
    const worker = await openWorker({ maxLogRecords: 0, log });
    for (const change of [
      () => worker.syncAll(),
      () => worker.rebuild(marker.organizationId),
      () => worker.syncAll(),
    ]) {
      await marker.increment();
      await change();
      for (const shown of [await marker.read(engine), await readAnew(marker)]) {
        expect(shown?.value).toBe(marker.value());
        expect(shown?.asOf).toBeLessThan(later);
      }
    }
    expect((await other.read(engine))?.asOf).toBeLessThan(later);
    expect(lines.filter((line) => line.includes('clock went back'))).toHaveLength(1);
  });

  it('stays the same for an organization that leaves the ticks', { tags: ['slow'] }, async ({
    database,
    markers,
    engine,
    openWorker,
    readAnew,
  }) => {
    const [marker, other] = markers;
    let isCatchingUp = false;
    const worker = await openWorker({
      maxTickChanges: 10,
      replace: withBuilder(() => ({
        async catchUp() {
          isCatchingUp = true;
          throw new Error('this build fails');
        },
      })),
    });
    const stop = follow(worker);
    await untilShown(marker, engine);
    // Without changes, the instant is later than the last snapshot with changes.
    for (let left = 3; left > 0; left -= 1) await untilLater(marker, engine);
    const before = await marker.read(engine);
    await addPurchases(database.pool, marker.organizationId, marker.customerId, 100);
    while (!isCatchingUp) await sleep(5);
    await untilLater(other, engine);
    expect((await readAnew(marker))?.asOf).toBeGreaterThanOrEqual(before?.asOf ?? 0n);
    await stop();
  });

  it('does not move on for an organization whose files the worker cannot continue', {
    tags: ['slow'],
  }, async ({ markers, engine, openWorker, directory }) => {
    const [marker, other] = markers;
    const first = await openWorker();
    await first.syncAll();
    await first.close();
    const before = await marker.read(engine);
    // The reader has the log open. Opening it again fails.
    const log = publishedLog(organizationDirectory(directory, marker.organizationId));
    rmSync(log);
    symlinkSync(log, log);
    const worker = await openWorker({
      replace: withBuilder(() => ({
        async load() {
          throw new Error('this build fails');
        },
      })),
    });
    const stop = follow(worker);
    await marker.increment();
    await other.increment();
    await untilShown(other, engine);
    await untilLater(other, engine);
    expect(await marker.read(engine)).toEqual(before);
    await stop();
  });

  it('is that of one snapshot of all organizations', { tags: ['slow'] }, async ({
    database,
    markers,
    engine,
    openWorker,
  }) => {
    const organizations = markers.map(({ organizationId }) => organizationId);
    for (const { organizationId, customerId } of markers) {
      await addPurchases(database.pool, organizationId, customerId, 20);
    }
    const stop = follow(await openWorker({ maxLogRecords: 50 }));
    let isOver = false;
    const moving = (async () => {
      for (let round = 0; !isOver; round += 1) {
        // Some purchases move to the other organization.
        await database.pool.query(
          `update purchases set customer_id = target.id, organization_id = target.organization_id
           from (
             select customers.id, organization_id from customers
             where organization_id = any ($1) order by customers.id
           ) as target
           where purchases.organization_id <> target.organization_id
             and purchase_value_in_cents > 0 and purchases.id % 7 = $2::int % 7`,
          [organizations, round],
        );
      }
    })();
    const totals = async (id: bigint) => {
      const { result, asOf } = await readPurchaseStats(engine, id, { filters: {}, groupLimit: 1 });
      return { ...result, asOf };
    };
    for (const marker of markers) await untilShown(marker, engine);
    const counts = new Set<bigint>();
    try {
      for (let compared = 0; compared < 100; ) {
        const [one, other] = (await Promise.all(organizations.map(totals))) as [
          Awaited<ReturnType<typeof totals>>,
          Awaited<ReturnType<typeof totals>>,
        ];
        if (one.asOf !== other.asOf) continue;
        compared += 1;
        counts.add(one.purchaseCount);
        expect(one.purchaseCount + other.purchaseCount).toBe(42n);
        expect(one.revenueInCents + other.revenueInCents).toBe(420n);
      }
    } finally {
      isOver = true;
      await moving;
      await stop();
    }
    expect(counts.size).toBeGreaterThan(1);
  });

  it('is unknown without a readable tick', async ({ directory, engine }) => {
    mkdirSync(ticksDirectory(directory), { recursive: true });
    const path = tickPath(directory, everyOrganization);
    symlinkSync(path, path);
    expect(readTicks(directory)).toEqual([]);
    expect(await engine.freshness(1n)).toBeNull();
  });

  it('is not that of an unpublished tick', { tags: ['slow'] }, async ({
    directory,
    markers,
    engine,
    openWorker,
  }) => {
    const [marker] = markers;
    let isFailing = false;
    const worker = await openWorker({
      replace: ({ store }) => ({
        store: {
          ...store,
          async publish(content) {
            if (isFailing) throw new Error('no tick can be published');
            return store.publish(content);
          },
        },
      }),
    });
    await worker.syncAll();
    const before = await marker.read(engine);
    const content = () => readFileSync(tickPath(directory, everyOrganization), 'utf8');
    const published = content();
    isFailing = true;
    await marker.increment();
    await expect(worker.syncAll()).rejects.toThrow('no tick can be published');
    expect(content()).toBe(published);
    expect(await marker.read(engine)).toEqual(before);
    isFailing = false;
    await worker.syncAll();
    await untilShown(marker, engine);
  });
});

describe('a poll of the change log', () => {
  it('finds a tick due after changes, and after the log was pruned beyond the watermark', {
    tags: ['slow'],
  }, async ({ database: { pool }, markers: [marker] }) => {
    const take = async () => confirmSnapshot(pool, await withSnapshot(pool, takeSnapshot));
    const isTickDue = async (since: Awaited<ReturnType<typeof take>>) =>
      (await pollChangeLog(pool, since, everyOrganization, false)).isTickDue;
    let since = await take();
    expect(await isTickDue(since)).toBe(false);
    await marker.increment();
    expect(await isTickDue(since)).toBe(true);
    since = await take();
    await marker.increment();
    await pool.query(
      `with gone as (delete from purchase_changes where token is null)
       insert into purchase_change_pruning (pruned_below) values (pg_snapshot_xmax(pg_current_snapshot()))`,
    );
    expect(await isTickDue(since)).toBe(true);
    // Transactions elsewhere in the cluster may hold a snapshot's xmin back for a while.
    await vi.waitFor(async () => expect(await isTickDue(await take())).toBe(false), 120_000);
  });

  it('has an instant before which everything is visible, whatever transactions are open', async ({
    database: { pool },
    markers: [marker],
  }) => {
    const since = await confirmSnapshot(pool, await withSnapshot(pool, takeSnapshot));
    const poll = () => pollChangeLog(pool, since, everyOrganization, false);
    await withConnection(pool, async (slow) => {
      await slow.query('begin');
      await addPurchases(slow, marker.organizationId, marker.customerId, 1);
      const during = await poll();
      expect(during.isTickDue).toBe(false);
      await slow.query('commit');
      const after = await poll();
      expect(after.isTickDue).toBe(true);
      expect(after.asOf).toBeGreaterThan(during.asOf);
    });
  });
});
