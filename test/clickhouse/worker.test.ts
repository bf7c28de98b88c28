import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import {
  buildBatches,
  type LoadGeneration,
  newestGeneration,
} from '../../src/engines/clickhouse/generation.ts';
import { listPurchases, readPurchase } from '../../src/engines/clickhouse/list.ts';
import { listOfIds } from '../../src/engines/clickhouse/relations.ts';
import { purchaseNames, table } from '../../src/engines/clickhouse/schema.ts';
import { readClickHouseTicks } from '../../src/engines/clickhouse/ticks.ts';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { newestPurchases } from '../../sync/clickhouse/newest-purchases.ts';
import type { Organization } from '../../sync/organization.ts';
import { createGate } from '../support/held-builds.ts';
import {
  addACent,
  addCustomer,
  addOrganization,
  addPurchase,
  addPurchases,
} from '../support/shop.ts';
import { follow } from '../support/sync.ts';
import { createTcpProxy } from '../support/tcp-proxy.ts';
import { type ClickHouseWorkerOptions, createClickHouseWorker } from './database.ts';
import { clickHouseTest as it } from './fixtures.ts';

/** The loads of an organization that have rows. */
async function readLoadsWithRows(clickhouse: ClickHouse, organizationId: bigint) {
  const ofOrganization = sql`where organization_id = ${organizationId}`;
  const rows = await clickhouse.query(sql`
    select distinct load_id from ${table.purchase} ${ofOrganization} union distinct
    select distinct load_id from ${table.purchase_change} ${ofOrganization}`);
  return rows.map(([loadId]) => loadId as string);
}

describe('a worker', () => {
  it('keeps the changes that are published during a compaction, and during a load', async ({
    clickhouse,
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(200);
    const worker = await replica.openSynced({ maxLogRecords: 50 });
    const stop = follow(worker);
    const build = async (start: () => Promise<unknown>) => {
      const { loadId } = await replica.generation();
      const isHeld = proxy.hold(/insert into purchase_v/i);
      await start();
      const release = await isHeld;
      const { name } = await replica.generation();
      await replica.change('id % 3 = 0');
      await replica.delete('id % 11 = 0');
      while ((await replica.generation()).name === name) await sleep(20);
      release();
      while ((await replica.generation()).loadId === loadId) await sleep(20);
    };
    await build(() => replica.change('id % 2 = 0'));
    // Those of the compaction belong to the new load.
    expect((await replica.generation()).writers).toContainEqual(buildBatches);
    let rebuilding: Promise<void> | undefined;
    await build(async () => {
      rebuilding = worker.rebuild(replica.id);
    });
    await rebuilding;
    await stop();
    await replica.expectEqual();
    const { loadId } = await replica.generation();
    const [row] = await clickhouse.query(sql`
      select countIf(writer = ''), count() from ${table.purchase_change} where load_id = ${loadId}`);
    expect(Number(row?.[0])).toBeGreaterThan(0);
  });

  it('finds planted differences, which a rebuild removes', async ({ clickhouse, replica }) => {
    const { purchase, purchase_change: change } = table;
    await replica.add(200);
    const worker = await replica.openSynced();
    await replica.change('id % 4 = 0');
    await worker.once([replica.id]);
    const { loadId } = await replica.generation();
    const unchanged = sql`organization_id = ${replica.id} and load_id = ${loadId}
      and id not in (select id from ${change})`;
    const ids = (
      await clickhouse.query(sql`select id from ${purchase} where ${unchanged} order by id`)
    ).map(([id]) => BigInt(id as string)) as [bigint, bigint, bigint, ...bigint[]];
    const settle = raw('settings mutations_sync = 2');
    await clickhouse.run(
      sql`alter table ${purchase} update order_number = 'x' where id = ${ids[0]} ${settle}`,
    );
    await clickhouse.run(sql`alter table ${purchase} delete where id = ${ids[50]} ${settle}`);
    await clickhouse.run(
      sql`insert into ${purchase} select * from ${purchase} where id = ${ids[100]}`,
    );
    const found = await replica.verify();
    expect(found).toMatchObject({ state: 'differs', differing: 3 });
    expect([...found.examples].sort()).toEqual([ids[0], ids[50], ids[100]].sort());
    await worker.rebuild(replica.id, true);
    expect((await replica.generation()).loadId).not.toBe(loadId);
    await replica.expectEqual();
  });

  it('finds superseded rows that are wrong, which a rebuild removes', async ({
    clickhouse,
    replica,
  }) => {
    const { purchase_change: change } = table;
    await replica.add(20);
    const worker = await replica.openSynced();
    await replica.change('id % 4 = 0');
    await worker.once([replica.id]);
    // Sums over signed rows are wrong, although the present rows are equal.
    const { loadId, writers } = await replica.generation();
    await clickhouse.run(sql`
      insert into ${change} select * replace (toInt8(-1) as sign) from (
        select * from ${change}
        where organization_id = ${replica.id} and sign > 0 and writer = ${writers[0]?.writer}
        limit 1
      )`);
    expect(await replica.verify()).toMatchObject({ state: 'unreadable' });
    await worker.rebuild(replica.id);
    expect((await replica.generation()).loadId).not.toBe(loadId);
    await replica.expectEqual();
  });

  it('inserts the changes of more than 100 organizations at once', { tags: ['slow'] }, async ({
    database: { pool },
    clickhouse,
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(3);
    const organizations = [replica.id];
    for (let count = 0; count < 120; count += 1) {
      const id = await addOrganization(pool);
      await addPurchases(pool, id, await addCustomer(pool, id), 3);
      organizations.push(id);
    }
    const worker = await replica.openWorker();
    await worker.once(organizations);
    await pool.query(`${addACent} where purchase_value_in_cents = 1`);
    await pool.query('delete from purchases where purchase_value_in_cents = 3');
    proxy.inserts.length = 0;
    await worker.once(organizations);
    const inserts = proxy.inserts.map((text) => /insert into (\w+)_v/i.exec(text)?.[1]);
    expect(inserts.slice(0, 2).sort()).toEqual(['purchase_change', 'purchase_feed']);
    expect(inserts.slice(2)).toEqual(['purchase_change', 'tick']);
    // Of each organization: two rows were superseded, one of them has a successor.
    const [row] = await clickhouse.query(sql`
      select uniqExact(organization_id), countIf(sign < 0), countIf(sign > 0), sum(sign)
      from ${table.purchase_change} where organization_id in ${listOfIds(organizations)}`);
    expect((row ?? []).map(Number)).toEqual([121, 242, 121, -121]);
    await replica.expectEqual();
  });

  it('copies the batches of many writers to one', async ({ clickhouse, replica }) => {
    await replica.add(100);
    const options = { maxWriters: 3 };
    for (let start = 0; start < 5; start += 1) {
      const worker = await replica.openSynced();
      await replica.change(`id % 5 <= ${start}`);
      await replica.delete(`id % 20 = ${start}`);
      await worker.once([replica.id]).finally(() => worker.close());
    }
    expect((await replica.generation()).writers).toHaveLength(5);
    const worker = await replica.openWorker(options);
    const stop = follow(worker);
    const countWriters = async () => {
      const [row] = await clickhouse.query(sql`
        select uniqExact(writer) from ${table.purchase_change}
        where organization_id = ${replica.id}`);
      return Number(row?.[0]);
    };
    while ((await replica.generation()).writers.length !== 1) await sleep(20);
    await replica.expectEqual();
    await stop();
    await worker.close();
    expect(await countWriters()).toBe(6);

    // The first run of a worker removes the rows that no tick names.
    const next = await replica.openWorker(options);
    const end = follow(next);
    while ((await countWriters()) !== 1) await sleep(20);
    await end();
    await replica.expectEqual();
  });

  it('continues a list after a purchase that was deleted', async ({
    clickhouse,
    newCustomerId,
    replica,
  }) => {
    const ids: bigint[] = [];
    for (const day of ['01', '02', '03', '04']) {
      const created = { customer_id: newCustomerId, created_at: `2026-01-${day}T00:00:00Z` };
      ids.push(await addPurchase(replica.pool, replica.id, created));
    }
    await replica.sync();
    await replica.delete(`id = ${ids[2]}`);
    await replica.sync();
    const query = { filters: {}, limit: 1, startingAfter: ids[2] as bigint };
    const page = await listPurchases(clickhouse, await replica.generation(), query, undefined);
    expect(page.purchases.map(({ id }) => id)).toEqual([ids[1]]);
  });

  it('compares a generation although thousands of its purchases have changed', async ({
    replica,
  }) => {
    await replica.add(6_000);
    await replica.sync();
    await replica.change('purchase_value_in_cents > 100');
    await replica.delete('purchase_value_in_cents > 5000');
    expect(await replica.verify({ rangeRows: 10_000 })).toMatchObject({
      state: 'equal',
      purchases: 100,
      changedSince: 5_900,
    });
  });

  it('publishes later instants once a second, under one version', async ({
    clickhouse,
    clickHouseProxy: proxy,
    replica,
  }) => {
    const worker = await replica.openSynced();
    const first = await replica.generation();
    const [{ number } = { number: 0n }] = await readClickHouseTicks(clickhouse);
    const startedAt = performance.now();
    proxy.inserts.length = 0;
    const stop = follow(worker);
    const ticks = async () => ((await readClickHouseTicks(clickhouse))[0]?.number ?? 0n) - number;
    const age = async () => (await replica.generation()).asOf - first.asOf;
    while ((await age()) <= 2_000_000n || (await ticks()) < 2n) await sleep(50);
    await stop();
    const seconds = (performance.now() - startedAt) / 1000;
    expect((await replica.generation()).name).toBe(first.name);
    expect(proxy.inserts.length).toBeLessThanOrEqual(seconds + 1);
  });

  it('removes a deleted organization', async ({ clickhouse, replica }) => {
    await replica.add(10);
    const worker = await replica.openSynced();
    await replica.change();
    await worker.once([replica.id]);
    const stop = follow(worker);
    await replica.pool.query('delete from organizations where id = $1', [replica.id]);
    while ((await newestGeneration(clickhouse, replica.id, undefined)) !== null) await sleep(50);
    while ((await readLoadsWithRows(clickhouse, replica.id)).length > 0) await sleep(50);
    await stop();
  });

  it('goes on after a change of the number of workers', { tags: ['slow'] }, async ({ replica }) => {
    const { pool } = replica;
    await replica.add(100);
    let other = replica.id;
    while ((other - replica.id) % 2n === 0n) other = await addOrganization(pool);
    await addPurchases(pool, other, await addCustomer(pool, other), 100);
    const changeWith = async (of: number, options: ClickHouseWorkerOptions = {}) => {
      for (const id of [replica.id, other]) {
        const shard = { of, number: Number(id % BigInt(of)) + 1 };
        const worker = await replica.openWorker({ graceMs: 600_000, shard, ...options });
        await worker.once([id]);
        await pool.query(`${addACent} where organization_id = $1 and id % 2 = 0`, [id]);
        await worker.once([id]);
        if (options.maxWriters !== undefined && id === replica.id) {
          const stop = follow(worker);
          while ((await replica.generation()).writers.length > 2) await sleep(20);
          await stop();
        }
        await worker.close();
      }
      await replica.expectEqual();
      expect(await replica.verify({ organizationId: other })).toMatchObject({ state: 'equal' });
    };
    const { loadId } = await changeWith(1).then(replica.generation);
    await changeWith(2);
    // One of the two workers copies batches of writers that the other one still names.
    await changeWith(2, { maxWriters: 1 });
    await changeWith(1);
    await changeWith(3);
    expect((await replica.generation()).loadId).toBe(loadId);
  });

  it.for(['tick', 'generation'] as const)(
    'shows all changes of an instant also if another load is published before a reader has read its %s',
    async (name, { server, clickHouseProxy: proxy, replica }) => {
      await replica.add(100);
      const worker = await replica.openSynced({ maxLogRecords: 50 });
      const { loadId } = await replica.generation();
      const reader = openClickHouse({ ...server.options, url: proxy.url });
      const isHeld = proxy.hold(new RegExp(`^select[^]* from ${name}_v`));
      const reading = newestGeneration(reader, replica.id, undefined);
      const release = await isHeld;
      await replica.change();
      await worker.once([replica.id]);
      const compacted = await replica.generation();
      expect(compacted.loadId).not.toBe(loadId);
      const beforeChange = await replica.published();
      await replica.change();
      await worker.once([replica.id]);
      release();
      const shown = await reading;
      expect(shown?.loadId).not.toBe(loadId);
      const expected =
        (shown?.asOf ?? 0n) < (await replica.generation()).asOf ? beforeChange : replica.stored();
      const rows = await reader.query(sql`
        select * from ${newestPurchases(shown as LoadGeneration, purchaseNames)}
        order by created_at desc, id desc`);
      expect(rows.map(readPurchase)).toEqual(await expected);
      await reader.close();
    },
  );

  it('removes replaced loads of any size', async ({
    clickhouse,
    database,
    directory,
    server,
    replica,
  }) => {
    await replica.add(10);
    const settings = { max_partition_size_to_drop: '1' };
    const limited = openClickHouse({ ...server.options, settings });
    const worker = await createClickHouseWorker(limited, database.pool, directory, { graceMs: 0 });
    await worker.once([replica.id]);
    await worker.rebuild(replica.id);
    await worker.once([replica.id]);
    const { loadId } = await replica.generation();
    expect(await readLoadsWithRows(clickhouse, replica.id)).toEqual([loadId]);
    await worker.close();
    await limited.close();
  });

  it('loads an organization whose first row Postgres sends late', { tags: ['slow'] }, async ({
    database,
    directory,
    server,
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(10);
    const copying = createGate();
    const released = createGate();
    const postgres = await createTcpProxy(database.url, (client, upstream) => {
      upstream.pipe(client);
      client.on('data', async (part) => {
        if (part.includes("current_setting('sync.load_id')")) {
          copying.resolve();
          await released.promise;
        }
        upstream.write(part);
      });
    });
    const pool = createPool(postgres.url, { max: 4, applicationName: 'test' });
    const clickhouse = openClickHouse({ ...server.options, url: proxy.url, timeoutMs: 5_000 });
    const worker = await createClickHouseWorker(clickhouse, pool, directory);
    const loading = worker.once([replica.id]);
    loading.catch(() => {});
    await copying.promise;
    // A request that began later has no response in this time.
    const isHeld = proxy.hold(/select 1/);
    await expect(clickhouse.query(sql`select 1`)).rejects.toThrow(/Timeout/);
    released.resolve();
    await loading;
    await replica.expectEqual();
    (await isHeld)();
    await worker.close();
    await pool.end();
    await postgres.close();
    await clickhouse.close();
  });

  it('merges the published ticks alone if a compaction begins during a tick', async ({
    clickhouse,
    replica,
    openTicks,
  }) => {
    await replica.add(100);
    await replica.sync();
    const { store, builder, organizations, publication, tick } = await openTicks(clickhouse);
    const organization = organizations.get(replica.id) as Organization;
    const build = { signal: new AbortController().signal, onRetain() {}, onProgress() {} };
    await replica.change();
    let compacting: ReturnType<typeof builder.compact> | undefined;
    const publish = store.publish;
    store.publish = async (content) => {
      compacting = builder.compact(organization, () => publication.tick, build);
      await compacting;
      await publish(content);
    };
    await tick();
    await (await compacting)?.publish(publication.tick, publication.watermark);
    await replica.expectEqual();
  });
});
