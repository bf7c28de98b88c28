import { setTimeout as sleep } from 'node:timers/promises';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { type ClickHouse, openClickHouse } from '../../src/engines/clickhouse/client.ts';
import {
  buildBatches,
  type Generation,
  newestGeneration,
} from '../../src/engines/clickhouse/generation.ts';
import { listPurchases, readPurchase } from '../../src/engines/clickhouse/list.ts';
import { listOfIds } from '../../src/engines/clickhouse/relations.ts';
import { purchaseNames, table } from '../../src/engines/clickhouse/schema.ts';
import { readTicks } from '../../src/engines/clickhouse/ticks.ts';
import { everyOrganization } from '../../src/purchase-store/shard.ts';
import { createClickHouseBuilder } from '../../sync/clickhouse/builder.ts';
import { currentPurchases } from '../../sync/clickhouse/current-purchases.ts';
import { createClickHouseStore } from '../../sync/clickhouse/store.ts';
import type { Organization, Organizations } from '../../sync/tick/organizations.ts';
import { startPublication } from '../../sync/tick/start.ts';
import { runTick } from '../../sync/tick/tick.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import {
  addACent,
  addCustomer,
  addOrganization,
  addPurchase,
  addPurchases,
} from '../support/shop.ts';
import { follow } from '../support/sync.ts';
import type { ClickHouseWorkerOptions } from './database.ts';
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
    database: { pool },
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    clickHouseProxy: proxy,
    openClickHouseWorker,
    generation,
    expectEqual,
  }) => {
    const change = (modulus: number) =>
      pool.query(`${addACent} where organization_id = $1 and id % ${modulus} = 0`, [
        organizationId,
      ]);
    await addPurchases(pool, organizationId, newCustomerId, 200);
    const worker = await openClickHouseWorker({ maxLogRecords: 50 });
    await worker.once([organizationId]);
    const stop = follow(worker);
    const build = async (start: () => Promise<unknown>) => {
      const { loadId } = await generation();
      const isHeld = proxy.hold(/insert into purchase_v/i);
      await start();
      const release = await isHeld;
      const { name } = await generation();
      await change(3);
      await pool.query('delete from purchases where organization_id = $1 and id % 11 = 0', [
        organizationId,
      ]);
      while ((await generation()).name === name) await sleep(20);
      release();
      while ((await generation()).loadId === loadId) await sleep(20);
    };
    await build(() => change(2));
    // Those of the compaction belong to the new load.
    expect((await generation()).writers).toContainEqual(buildBatches);
    let rebuilding: Promise<void> | undefined;
    await build(async () => {
      rebuilding = worker.repairsFor(organizationId).rebuild();
    });
    await rebuilding;
    await stop();
    await expectEqual();
    const { loadId } = await generation();
    const [row] = await clickhouse.query(sql`
      select countIf(writer = ''), count() from ${table.purchase_change} where load_id = ${loadId}`);
    expect(Number(row?.[0])).toBeGreaterThan(0);
  });

  it('catches up with more changes than a tick may have', async ({
    database: { pool },
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    generation,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 200);
    const worker = await openClickHouseWorker({ maxTickChanges: 100 });
    await worker.once([organizationId]);
    const { loadId } = await generation();
    await pool.query(`${addACent} where organization_id = $1 and id % 4 = 0`, [organizationId]);
    await worker.once([organizationId]);
    expect((await generation()).loadId).toBe(loadId);
    await pool.query(`${addACent} where organization_id = $1 and id % 3 > 0`, [organizationId]);
    await pool.query('delete from purchases where organization_id = $1 and id % 10 = 0', [
      organizationId,
    ]);
    await worker.once([organizationId]);
    const caughtUp = await generation();
    expect(caughtUp.loadId).not.toBe(loadId);
    expect(caughtUp).toMatchObject({ writers: [], purchases: 180 });
    await expectEqual();
  });

  it('finds planted differences, and reads them again from Postgres', async ({
    database: { pool },
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    generation,
    verify,
    expectEqual,
  }) => {
    const { purchase, purchase_change: change } = table;
    await addPurchases(pool, organizationId, newCustomerId, 200);
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    await pool.query(`${addACent} where organization_id = $1 and id % 4 = 0`, [organizationId]);
    await worker.once([organizationId]);
    const { loadId } = await generation();
    const unchanged = sql`organization_id = ${organizationId} and load_id = ${loadId}
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
    const found = await verify();
    expect(found.state).toBe('differs');
    const differing = found.differences.flatMap(({ rows }) => rows?.ids ?? []);
    expect(differing.sort()).toEqual([ids[0], ids[50], ids[100]].sort());
    await worker.repairsFor(organizationId).reread(differing);
    expect((await generation()).loadId).toBe(loadId);
    await expectEqual();

    // Sums over signed rows are wrong, although the present rows are equal.
    const { writers } = await generation();
    await clickhouse.run(sql`
      insert into ${change} select * replace (toInt8(-1) as sign) from (
        select * from ${change}
        where organization_id = ${organizationId} and sign > 0 and writer = ${writers[0]?.writer}
        limit 1
      )`);
    expect(await verify()).toMatchObject({ state: 'unreadable' });
    await worker.repairsFor(organizationId).rebuild();
    expect((await generation()).loadId).not.toBe(loadId);
    await expectEqual();
  });

  it('inserts the changes of more than 100 organizations at once', async ({
    database: { pool },
    clickhouse,
    clickHouseProxy: proxy,
    openClickHouseWorker,
    newShop: { organizationId },
    newCustomerId,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 3);
    const organizations = [organizationId];
    for (let count = 0; count < 120; count += 1) {
      const id = await addOrganization(pool);
      await addPurchases(pool, id, await addCustomer(pool, id), 3);
      organizations.push(id);
    }
    const worker = await openClickHouseWorker();
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
    await expectEqual();
  });

  it('copies the batches of many writers to one', async ({
    database: { pool },
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    generation,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 100);
    const options = { maxWriters: 3 };
    for (let start = 0; start < 5; start += 1) {
      const worker = await openClickHouseWorker(options);
      await worker.once([organizationId]);
      await pool.query(`${addACent} where organization_id = $1 and id % 5 <= $2`, [
        organizationId,
        start,
      ]);
      await pool.query('delete from purchases where organization_id = $1 and id % 20 = $2', [
        organizationId,
        start,
      ]);
      await worker.once([organizationId]).finally(() => worker.close());
    }
    expect((await generation()).writers).toHaveLength(5);
    const worker = await openClickHouseWorker(options);
    const stop = follow(worker);
    const countWriters = async () => {
      const [row] = await clickhouse.query(sql`
        select uniqExact(writer) from ${table.purchase_change}
        where organization_id = ${organizationId}`);
      return Number(row?.[0]);
    };
    while ((await generation()).writers.length !== 1) await sleep(20);
    await expectEqual();
    await stop();
    await worker.close();
    expect(await countWriters()).toBe(6);

    // The first run of a worker removes the rows that no tick names.
    const next = await openClickHouseWorker(options);
    const end = follow(next);
    while ((await countWriters()) !== 1) await sleep(20);
    await end();
    await expectEqual();
  });

  it('continues a list after a purchase that was deleted', async ({
    database: { pool },
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    sync,
    generation,
  }) => {
    const ids: bigint[] = [];
    for (const day of ['01', '02', '03', '04']) {
      const created = { customer_id: newCustomerId, created_at: `2026-01-${day}T00:00:00Z` };
      ids.push(await addPurchase(pool, organizationId, created));
    }
    await sync();
    await pool.query('delete from purchases where id = $1', [ids[2]]);
    await sync();
    const query = { filters: {}, limit: 1, startingAfter: ids[2] as bigint };
    const page = await listPurchases(clickhouse, await generation(), query, undefined);
    expect(page.purchases.map(({ id }) => id)).toEqual([ids[1]]);
  });

  it('compares a generation although thousands of its purchases have changed', async ({
    database: { pool },
    newShop: { organizationId },
    newCustomerId,
    sync,
    verify,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 6_000);
    await sync();
    await pool.query(`${addACent} where organization_id = $1 and purchase_value_in_cents > 100`, [
      organizationId,
    ]);
    await pool.query(
      'delete from purchases where organization_id = $1 and purchase_value_in_cents > 5000',
      [organizationId],
    );
    expect(await verify({ partRows: 10_000 })).toMatchObject({
      state: 'equal',
      purchases: 100,
      changedSince: 5_900,
    });
  });

  it('publishes later instants once a second, under one version', async ({
    clickhouse,
    clickHouseProxy: proxy,
    newShop: { organizationId },
    openClickHouseWorker,
    generation,
  }) => {
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    const first = await generation();
    const [{ number } = { number: 0n }] = await readTicks(clickhouse);
    const startedAt = performance.now();
    proxy.inserts.length = 0;
    const stop = follow(worker);
    while ((await generation()).asOf <= first.asOf + 2_000_000n) await sleep(50);
    await stop();
    const seconds = (performance.now() - startedAt) / 1000;
    expect((await generation()).name).toBe(first.name);
    const [last] = await readTicks(clickhouse);
    expect(last?.number).toBeGreaterThanOrEqual(number + 2n);
    expect(proxy.inserts.length).toBeLessThanOrEqual(seconds + 1);
  });

  it('removes a deleted organization', async ({
    database: { pool },
    clickhouse,
    openClickHouseWorker,
  }) => {
    const organizationId = await addOrganization(pool);
    await addPurchases(pool, organizationId, await addCustomer(pool, organizationId), 10);
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    await worker.once([organizationId]);
    const stop = follow(worker);
    await pool.query('delete from purchases where organization_id = $1', [organizationId]);
    await pool.query('delete from customers where organization_id = $1', [organizationId]);
    await pool.query('delete from organizations where id = $1', [organizationId]);
    while ((await newestGeneration(clickhouse, organizationId, undefined)) !== null)
      await sleep(50);
    while ((await readLoadsWithRows(clickhouse, organizationId)).length > 0) await sleep(50);
    await stop();
  });

  it('goes on after a change of the number of workers', async ({
    database: { pool },
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    generation,
    verify,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 100);
    let other = organizationId;
    while ((other - organizationId) % 2n === 0n) other = await addOrganization(pool);
    await addPurchases(pool, other, await addCustomer(pool, other), 100);
    const changeWith = async (of: number, options: ClickHouseWorkerOptions = {}) => {
      for (const id of [organizationId, other]) {
        const shard = { of, number: Number(id % BigInt(of)) + 1 };
        const worker = await openClickHouseWorker({ graceMs: 600_000, shard, ...options });
        await worker.once([id]);
        await pool.query(`${addACent} where organization_id = $1 and id % 2 = 0`, [id]);
        await worker.once([id]);
        if (options.maxWriters !== undefined && id === organizationId) {
          const stop = follow(worker);
          while ((await generation()).writers.length > 2) await sleep(20);
          await stop();
        }
        await worker.close();
      }
      await expectEqual();
      expect(await verify({ organizationId: other })).toMatchObject({ state: 'equal' });
    };
    const { loadId } = await changeWith(1).then(generation);
    await changeWith(2);
    // One of the two workers copies batches of writers that the other one still names.
    await changeWith(2, { maxWriters: 1 });
    await changeWith(1);
    await changeWith(3);
    expect((await generation()).loadId).toBe(loadId);
  });

  it.for(['tick', 'generation'] as const)(
    'shows all changes of an instant also if another load is published before a reader has read its %s',
    async (name, {
      database: { pool },
      newShop: { organizationId },
      newCustomerId,
      server,
      clickHouseProxy: proxy,
      openClickHouseWorker,
      generation,
      published,
      stored,
    }) => {
      await addPurchases(pool, organizationId, newCustomerId, 100);
      const change = () => pool.query(`${addACent} where organization_id = $1`, [organizationId]);
      const worker = await openClickHouseWorker({ maxLogRecords: 50 });
      await worker.once([organizationId]);
      const { loadId } = await generation();
      const reader = openClickHouse({ ...server.options, url: proxy.url });
      const isHeld = proxy.hold(new RegExp(`^select[^]* from ${name}_v`));
      const reading = newestGeneration(reader, organizationId, undefined);
      const release = await isHeld;
      await change();
      await worker.once([organizationId]);
      const compacted = await generation();
      expect(compacted.loadId).not.toBe(loadId);
      const beforeChange = await published();
      await change();
      await worker.once([organizationId]);
      release();
      const shown = await reading;
      expect(shown?.loadId).not.toBe(loadId);
      const expected = (shown?.asOf ?? 0n) < (await generation()).asOf ? beforeChange : stored();
      const rows = await reader.query(sql`
        select * from ${currentPurchases(shown as Generation, purchaseNames)}
        order by created_at desc, id desc`);
      expect(rows.map(readPurchase)).toEqual(await expected);
      await reader.close();
    },
  );

  it('merges the published ticks alone if a compaction begins during a tick', async ({
    database: { pool },
    directory,
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 100);
    const first = await openClickHouseWorker();
    await first.once([organizationId]);
    await first.close();

    const folder = { database: pool, clickhouse, dataDirectory: directory };
    const log = createRecordedLog();
    const store = createClickHouseStore({
      ...{ ...folder, log, shard: everyOrganization, changesRetentionMs: 0 },
    });
    const builder = createClickHouseBuilder(store, folder);
    const organizations: Organizations = new Map();
    const publication = await startPublication(
      { database: pool, store, shard: everyOrganization },
      organizations,
      () => {},
    );
    const organization = organizations.get(organizationId) as Organization;
    const build = { signal: new AbortController().signal, onRetain() {}, onProgress() {} };
    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    let compacting: ReturnType<typeof builder.compact> | undefined;
    const publish = store.publish;
    store.publish = async (content) => {
      compacting = builder.compact(organization, publication.tick, build);
      await compacting;
      await publish(content);
    };
    await runTick({
      ...{ database: pool, store, organizations, publication, maxTickChanges: 1_000 },
      onFailure() {},
    });
    const { tick, watermark } = publication;
    await (await compacting)?.publish(tick, watermark);
    await expectEqual();
  });
});
