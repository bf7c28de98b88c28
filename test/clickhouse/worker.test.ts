import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import sql, { raw } from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { newestGeneration } from '../../src/engines/clickhouse/generation.ts';
import { readLoads } from '../../sync/clickhouse/loads.ts';
import type { OrganizationReport } from '../../sync/status/report.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { areEqual } from '../support/published.ts';
import {
  addACent,
  addCustomer,
  addOrganization,
  addPurchase,
  addPurchases,
} from '../support/shop.ts';
import { follow } from '../support/sync.ts';
import { clickHouseTest as it } from './fixtures.ts';

describe('a worker', () => {
  it('publishes awkward purchases, and their changes', async ({
    database: { pool },
    newShop: { organizationId },
    sync,
    expectEqual,
  }) => {
    const customers = [
      await addCustomer(pool, organizationId),
      await addCustomer(pool, organizationId),
    ];
    const [purchases = []] = fc.sample(
      fc.array(awkwardPurchase(customers), { minLength: 150, maxLength: 150 }),
      1,
    );
    for (const purchase of purchases) await addPurchase(pool, organizationId, purchase);
    for (const text of ['\\', '\\N', '\b\f\r\v\n\t', "'\\t'", '\\\\N', '']) {
      const values = { order_number: text, utm_term: text, customer_id: customers[0] as bigint };
      await addPurchase(pool, organizationId, values);
    }
    await sync();
    await expectEqual();
    await pool.query(`${addACent} where organization_id = $1 and id % 3 = 0`, [organizationId]);
    await pool.query('delete from purchases where organization_id = $1 and id % 5 = 0', [
      organizationId,
    ]);
    const other = await addOrganization(pool);
    const customerOfOther = await addCustomer(pool, other);
    const move =
      'update purchases set organization_id = $2, customer_id = $3 where organization_id = $1';
    await pool.query(`${move} and id % 7 = 0`, [organizationId, other, customerOfOther]);
    await sync();
    await expectEqual();
    await pool.query(addACent);
    await pool.query(move, [other, organizationId, customers[1]]);
    await sync();
    await expectEqual();
  });

  it('compacts many changes into a new load, and drops the one that it replaces', async ({
    database: { pool },
    clickhouse,
    newShop: { organizationId },
    newCustomerId,
    openClickHouseWorker,
    generation,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 200);
    const worker = await openClickHouseWorker({ maxDeltaRows: 100 });
    await worker.once([organizationId]);
    const { load } = await generation();
    await pool.query(`${addACent} where organization_id = $1 and id % 2 = 0`, [organizationId]);
    await pool.query('delete from purchases where organization_id = $1 and id % 5 = 0', [
      organizationId,
    ]);
    await worker.once([organizationId]);
    const compacted = await generation();
    expect(compacted.load).not.toBe(load);
    expect(compacted.batches).toEqual([]);
    await expectEqual();

    const stop = follow(worker);
    const loads = async () => (await readLoads(clickhouse)).get(organizationId);
    while ((await loads())?.length !== 1) await sleep(50);
    expect(await loads()).toEqual([compacted.load]);
    await pool.query(`${addACent} where organization_id = $1 and id % 3 = 0`, [organizationId]);
    while ((await generation()).batches.length === 0) await sleep(20);
    await stop();
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
    await addPurchases(pool, organizationId, newCustomerId, 200);
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    await pool.query(`${addACent} where organization_id = $1 and id % 4 = 0`, [organizationId]);
    await worker.once([organizationId]);
    const { load } = await generation();
    const unchanged = sql`organization_id = ${organizationId} and load_id = ${load}
      and id not in (select id from purchase_change)`;
    const ids = (
      await clickhouse.query(sql`select id from purchase where ${unchanged} order by id`)
    ).map(([id]) => BigInt(id as string)) as [bigint, bigint, bigint, ...bigint[]];
    const settle = raw('settings mutations_sync = 2');
    await clickhouse.run(
      sql`alter table purchase update order_number = 'x' where id = ${ids[0]} ${settle}`,
    );
    await clickhouse.run(sql`alter table purchase delete where id = ${ids[50]} ${settle}`);
    await clickhouse.run(sql`insert into purchase select * from purchase where id = ${ids[100]}`);
    const found = await verify();
    expect(found.state).toBe('differs');
    expect(found.differences.flatMap(({ rows }) => rows?.examples ?? []).sort()).toEqual(
      [ids[0], ids[50], ids[100]].sort(),
    );
    await worker.repairsFor(organizationId).reread(found.differences);
    await expectEqual();

    // Sums over signed rows are wrong, although the present rows are equal.
    const { batches } = await generation();
    await clickhouse.run(sql`
      insert into purchase_change select * replace (toInt8(-1) as sign) from (
        select * from purchase_change
        where organization_id = ${organizationId} and sign > 0 and writer = ${batches[0]?.writer}
        limit 1
      )`);
    expect(await verify()).toMatchObject({ state: 'unreadable' });
    await worker.repairsFor(organizationId).rebuild();
    expect((await generation()).load).not.toBe(load);
    await expectEqual();
  });

  it.for(['halve', 'keep response'] as const)(
    'shows no part of a batch, and counts it once, if its connection breaks (%s)',
    async (mode, {
      database: { pool },
      clickhouse,
      newShop: { organizationId },
      newCustomerId,
      clickHouseProxy: proxy,
      openClickHouseWorker,
      generation,
      published,
      expectEqual,
    }) => {
      await addPurchases(pool, organizationId, newCustomerId, 100);
      const worker = await openClickHouseWorker();
      await worker.once([organizationId]);
      const before = { generation: await generation(), purchases: await published() };
      await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
      proxy.mode = mode;
      await expect(worker.once([organizationId])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBe(1);
      const [row] = await clickhouse.query(sql`
      select count() from purchase_change where organization_id = ${organizationId} and sign > 0`);
      expect(Number(row?.[0])).toBeGreaterThan(0);
      expect({ generation: await generation(), purchases: await published() }).toEqual(before);

      proxy.mode = 'forward';
      await worker.once([organizationId]);
      await expectEqual();
      await pool.query(`${addACent} where organization_id = $1 and id % 2 = 0`, [organizationId]);
      await worker.once([organizationId]);
      await expectEqual();
    },
  );

  it('reports that the server is gone, and catches up when it is back', async ({
    database: { pool },
    newShop: { organizationId },
    newCustomerId,
    clickHouseProxy: proxy,
    openClickHouseWorker,
    generation,
    published,
    stored,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 100);
    let failure: OrganizationReport['failure'] = null;
    const worker = await openClickHouseWorker({
      onReport: (id, report) => {
        if (id === organizationId) failure = report.failure;
      },
    });
    await worker.once([organizationId]);
    const { watermark } = await generation();
    const stop = follow(worker);
    proxy.mode = 'refuse';
    await pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    while (failure === null) await sleep(20);
    expect(failure).toMatchObject({
      message: expect.stringContaining('ClickHouse cannot be used'),
      advice: expect.stringContaining('CLICKHOUSE_URL'),
    });
    expect((await generation()).watermark).toEqual(watermark);
    proxy.mode = 'forward';
    while (!areEqual(await published(), await stored())) await sleep(20);
    while (failure !== null) await sleep(20);
    await stop();
    await expectEqual();
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

  it('confirms an unchanged generation, and removes a deleted organization', async ({
    database: { pool },
    clickhouse,
    openClickHouseWorker,
  }) => {
    const organizationId = await addOrganization(pool);
    await addPurchases(pool, organizationId, await addCustomer(pool, organizationId), 10);
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    const stop = follow(worker);
    const newest = () => newestGeneration(clickhouse, organizationId, undefined);
    const first = await newest();
    while (((await newest())?.asOf ?? 0n) <= (first?.asOf ?? 0n)) await sleep(50);
    expect((await newest())?.number).toBe(first?.number);

    await pool.query('delete from purchases where organization_id = $1', [organizationId]);
    await pool.query('delete from customers where organization_id = $1', [organizationId]);
    await pool.query('delete from organizations where id = $1', [organizationId]);
    while ((await newest()) !== null) await sleep(50);
    while ((await readLoads(clickhouse)).has(organizationId)) await sleep(50);
    await stop();
  });
});
