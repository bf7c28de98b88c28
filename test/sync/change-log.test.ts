import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  createPool,
  type Database,
  withConnection,
  withSnapshot,
} from '../../src/postgres/connection/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { pollChangeLog, pruneChangeLog } from '../../sync/capture/change-log.ts';
import { confirmSnapshot } from '../../sync/capture/history-token.ts';
import { takeSnapshot } from '../../sync/capture/snapshot.ts';
import type { Watermark } from '../../sync/capture/watermark.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { isolatedTest, test } from '../support/fixtures.ts';
import { addMarker, untilShown } from '../support/marker.ts';
import { publishedLog } from '../support/published-files.ts';
import { addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker, type TestWorkerOptions } from '../support/sync.ts';

const takeWatermark = async (database: Database): Promise<Watermark> =>
  confirmSnapshot(database, await withSnapshot(database, takeSnapshot));

/** A worker whose connections report the plan of each statement, and the plans. */
const it = test.extend('explained', async ({ database, directory }, { onCleanup }) => {
  const url = new URL(database.url);
  url.searchParams.set(
    'options',
    '-c session_preload_libraries=auto_explain -c auto_explain.log_min_duration=0 -c client_min_messages=log',
  );
  const plans: string[] = [];
  const pool = createPool(url.href, { max: 4, applicationName: 'test' });
  pool.on('connect', (connection) => {
    connection.on('notice', ({ message = '' }) => plans.push(message));
  });
  const worker = await createTestWorker(pool, directory);
  onCleanup(async () => {
    await worker.close();
    await pool.end();
  });
  return { worker, pool, plans };
});

const scansOf = (plans: readonly string[]) =>
  plans.filter((plan) => plan.includes('Seq Scan on purchase_changes'));

describe('the change log', () => {
  it('is pruned in batches, each of which is committed', async ({
    database: { pool },
    newShop,
  }) => {
    const add = (count: number) =>
      pool.query(
        `insert into purchase_changes (organization_id, purchase_id, transaction_id)
         select $1, number, pg_current_xact_id() from generate_series(1, $2) as number`,
        [newShop.organizationId, count],
      );
    await add(25_000);
    await add(1);
    const { rows } = await pool.query(
      'select pg_snapshot_xmax(pg_current_snapshot())::text as next',
    );
    const count = async () =>
      Number((await pool.query('select count(*) from purchase_changes')).rows[0].count);
    await withConnection(pool, async (locking) => {
      await locking.query('begin');
      await locking.query(
        'select from purchase_changes order by transaction_id desc limit 1 for update',
      );
      const snapshot = `${rows[0].next}:${rows[0].next}:`;
      const pruning = pruneChangeLog(pool, 'reader 1/1', [snapshot]);
      while ((await count()) > 10_000) await sleep(20);
      await locking.query('commit');
      expect(await pruning).toBe(25_001);
    });
    expect(await count()).toBe(0);
    await pool.query(`delete from purchase_change_readers where name = 'reader 1/1'`);
  });

  it('is read by its indexes during and after a large import, although its file stays large', {
    tags: ['slow'],
  }, async ({
    database,
    newShop: { organizationId },
    newCustomerId,
    explained: { worker, pool, plans },
  }) => {
    await database.pool.query(
      `insert into purchase_changes (organization_id, purchase_id, transaction_id)
       select $1, number, pg_current_xact_id() from generate_series(1, 200000) as number`,
      [organizationId],
    );
    const since = await takeWatermark(database.pool);
    const change = () => addPurchase(database.pool, organizationId, { customer_id: newCustomerId });
    await change();
    const poll = async () => {
      // Postgres uses one plan for all values after five executions of a prepared statement.
      for (let number = 0; number < 8; number += 1) {
        const { isTickDue } = await pollChangeLog(pool, since, everyOrganization, number % 2 === 0);
        expect(isTickDue).toBe(true);
      }
    };
    await poll();
    expect(plans.length).toBeGreaterThan(7);
    expect(scansOf(plans)).toEqual([]);

    await worker.once([organizationId]);
    await database.pool.query('vacuum analyze purchase_changes');
    const { rows } = await database.pool.query(
      `select count(*) < 10 as is_pruned, pg_relation_size('purchase_changes') > 8000000 as is_large
       from purchase_changes`,
    );
    expect(rows).toEqual([{ is_pruned: true, is_large: true }]);

    await change();
    plans.length = 0;
    await poll();
    await worker.once([organizationId]);
    expect(plans.filter((plan) => plan.includes('purchase_changes')).length).toBeGreaterThan(10);
    expect(scansOf(plans)).toEqual([]);
  });
});

const itAlone = isolatedTest
  .extend('marker', async ({ database: { pool } }) => addMarker(pool, await addOrganization(pool)))
  /** Publishes once, by a worker that ends then. Returns the states that it reported. */
  .extend('sync', ({ openWorker }) => async (options: TestWorkerOptions = {}) => {
    const states = new Set<string>();
    const worker = await openWorker({
      onReport: (_organizationId, { state }) => void states.add(state),
      ...options,
    });
    await worker.syncAll().finally(() => worker.close());
    return states;
  })
  .extend('entries', ({ database: { pool } }) => async () => {
    const { rows } = await pool.query<{ purchase_id: bigint }>(
      'select purchase_id from purchase_changes where token is null',
    );
    return rows.length;
  })
  /** Publishes until nothing is retained: transactions elsewhere in the cluster retain entries too. */
  .extend('untilPruned', ({ sync, entries }) => async () => {
    do await sync();
    while ((await entries()) > 0);
  });

describe('a worker that was away', { tags: ['slow'] }, () => {
  itAlone(
    'continues without a build if the change log has the changes',
    async ({ directory, marker, sync, engine }) => {
      const later = join(directory, 'later');
      const log = () => publishedLog(organizationDirectory(later, marker.organizationId));
      expect(await sync({ dataDirectory: later })).toContain('loading');
      const before = log();
      await sync();
      for (let count = 0; count < 5; count += 1) {
        await marker.increment();
        await sync();
      }
      expect(await sync({ dataDirectory: later })).toEqual(new Set());
      expect(log()).toBe(before);
      await untilShown(marker, engine);
      const laterEngine = await createTestDuckDBEngine(later);
      await untilShown(marker, laterEngine).finally(() => laterEngine.close());
    },
  );

  itAlone(
    'loads again if the change log was pruned meanwhile',
    async ({ database, directory, marker, sync, entries, untilPruned }) => {
      const later = join(directory, 'later');
      await sync({ dataDirectory: later });
      await untilPruned();
      await marker.increment();
      for (let count = 0; count < 5; count += 1) await sync();
      // The other data folder retains them for a day.
      expect(await entries()).toBe(1);
      await database.pool.query(
        `update purchase_change_readers set seen_at = seen_at - interval '25 hours'
       where name like $1`,
        [`${await dataFolderId(later)} %`],
      );
      await untilPruned();
      expect(await sync({ dataDirectory: later })).toContain('rebuilding');
      const engine = await createTestDuckDBEngine(later);
      await untilShown(marker, engine).finally(() => engine.close());
    },
  );
});

describe('the change log', () => {
  itAlone(
    'keeps entries whose records are not on the disk yet',
    { tags: ['slow'] },
    async ({ marker, sync, entries, untilPruned, engine }) => {
      await untilPruned();
      await marker.increment();
      const failing = sync({
        replace: ({ store }) => ({
          store: {
            ...store,
            async sync() {
              throw new Error('the disk does not respond');
            },
          },
        }),
      });
      await expect(failing).rejects.toThrow('the disk does not respond');
      await untilShown(marker, engine);
      expect(await entries()).toBe(1);
      await untilPruned();
    },
  );
});
