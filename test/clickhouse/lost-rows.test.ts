import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { table, tableNames } from '../../src/engines/clickhouse/schema.ts';
import { follow } from '../support/sync.ts';
import { clickHouseTest } from './fixtures.ts';

const { TEST_CLICKHOUSE_URL: givenServer, TEST_CLICKHOUSE_CLUSTER: cluster } = process.env;

/** Purchases of a load, and changes. */
const it = clickHouseTest.extend('syncedWorker', async ({ replica }) => {
  await replica.add(100);
  const worker = await replica.openSynced();
  await replica.change('id % 2 = 0');
  await worker.once([replica.id]);
  return worker;
});

describe('a worker whose rows in ClickHouse were lost', () => {
  it.skipIf(cluster !== undefined).for(['generation', 'purchase', 'purchase_change'] as const)(
    'loads an organization again if a table was emptied: %s',
    async (name, { clickhouse, syncedWorker: worker, replica }) => {
      const { loadId, feed } = await replica.generation();
      await clickhouse.run(sql`truncate table ${table[name]}`);
      const stop = follow(worker);
      const isLoaded = async () => {
        const { loadId: newest = loadId } = (await replica.generation()) ?? {};
        return newest !== loadId;
      };
      while (!(await isLoaded())) await sleep(50);
      await replica.change('id % 3 = 0');
      await stop();
      await worker.once([replica.id]);
      await replica.expectEqual();
      // Rows of the feed may be missing, too.
      expect((await replica.generation()).feed).not.toBe(feed);
    },
  );

  it.skipIf(cluster !== undefined).for([
    ['one', ['tick']],
    ['all', tableNames],
  ] as const)(
    'ends, so that another one creates the tables, if %s of them were dropped',
    { tags: ['slow'] },
    async ([, names], { clickhouse, syncedWorker: worker, replica }) => {
      const running = worker.run(new AbortController().signal);
      for (const name of names) {
        await clickhouse.run(sql`drop table ${table[name]} sync`);
      }
      let isRunning = true;
      running.finally(() => {
        isRunning = false;
      });
      // Each poll has changes.
      while (isRunning) {
        await replica.change('id % 3 = 0');
        await sleep(10);
      }
      await worker.close();
      await replica.openSynced();
      await replica.expectEqual();
    },
  );

  it.skipIf(givenServer !== undefined)(
    'rebuilds a damaged part of a load',
    async ({ clickhouse, syncedWorker: worker, replica }) => {
      const { loadId } = await replica.generation();
      const [row] = await clickhouse.query(sql`
      select path from system.parts
      where database = currentDatabase() and active and partition = ${loadId}`);
      const directory = row?.[0] as string;
      for (const name of (await readdir(directory)).filter((each) => each.endsWith('.bin'))) {
        const path = join(directory, name);
        const content = await readFile(path);
        content[content.length - 1] = (content.at(-1) ?? 0) ^ 1;
        await writeFile(path, content);
      }
      await clickhouse.run(raw('system drop mark cache'));
      expect(await replica.verify()).toMatchObject({ state: 'unreadable' });
      await worker.rebuild(replica.id, true);
      await replica.expectEqual();
    },
  );

  it('removes a deleted organization although the first attempt failed', async ({
    clickhouse,
    clickHouseProxy: proxy,
    syncedWorker: worker,
    replica,
  }) => {
    await replica.pool.query('delete from organizations where id = $1', [replica.id]);
    Object.assign(proxy, { mode: 'halve', breaking: /^alter table/i });
    await expect(worker.once([])).rejects.toThrow(/ClickHouse/);
    proxy.mode = 'forward';
    await worker.once([]);
    const countRows = async () => {
      const [row] = await clickhouse.query(sql`
        select (select count() from ${table.generation} where organization_id = ${replica.id})
          + (select count() from ${table.purchase} where organization_id = ${replica.id})`);
      return Number(row?.[0]);
    };
    while ((await countRows()) > 0) await sleep(50);
  });
});
