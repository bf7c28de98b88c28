import { setTimeout as sleep } from 'node:timers/promises';
import sql from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { table } from '../../src/engines/clickhouse/schema.ts';
import { everyOrganization } from '../../src/purchase-store/shard.ts';
import { readWorkerState } from '../../sync/status/worker-state.ts';
import { areEqual } from '../support/published.ts';
import { addACent, addPurchases } from '../support/shop.ts';
import { follow } from '../support/sync.ts';
import { clickHouseTest as it } from './fixtures.ts';

describe('a worker whose connection to ClickHouse breaks', () => {
  it.for([
    ['halve', 'the current rows', /^insert into purchase_change_v\S+ \(.*tabseparated/i],
    ['keep response', 'the current rows', /^insert into purchase_change_v\S+ \(.*tabseparated/i],
    [
      'keep response',
      'the superseded rows',
      /^insert into purchase_change_v\S+ \([^)]*\)\s+select/i,
    ],
  ] as const)(
    'shows no part of a batch, and counts it once, if its connection breaks (%s, %s)',
    async ([mode, , breaking], {
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
      Object.assign(proxy, { mode, breaking });
      await expect(worker.once([organizationId])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBe(1);
      const [row] = await clickhouse.query(sql`
        select count() from ${table.purchase_change}
        where organization_id = ${organizationId} and sign > 0`);
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

  it('never shows a batch that arrives late, of itself or of a worker before it', async ({
    database: { pool },
    newShop: { organizationId },
    newCustomerId,
    clickHouseProxy: proxy,
    openClickHouseWorker,
    expectEqual,
  }) => {
    await addPurchases(pool, organizationId, newCustomerId, 100);
    const change = () => pool.query(`${addACent} where organization_id = $1`, [organizationId]);
    let worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    for (const isEnded of [false, true]) {
      await change();
      proxy.mode = 'delay';
      await expect(worker.once([organizationId])).rejects.toThrow(/ClickHouse/);
      proxy.mode = 'forward';
      if (isEnded) {
        await worker.close();
        worker = await openClickHouseWorker();
      }
      await change();
      await worker.once([organizationId]);
      await proxy.deliver();
      await expectEqual();
      await change();
      await worker.once([organizationId]);
      await expectEqual();
    }
    expect(proxy.broken).toBe(2);
  });

  it.for([false, true])(
    'shows a tick whose insert failed and arrives late, and later ones (another worker: %s)',
    async (isEnded, {
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
      const change = () => pool.query(`${addACent} where organization_id = $1`, [organizationId]);
      let worker = await openClickHouseWorker();
      await worker.once([organizationId]);
      const before = await generation();

      await change();
      const changed = await stored();
      Object.assign(proxy, { mode: 'delay', breaking: /^insert into tick_v/i });
      await expect(worker.once([organizationId])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBeGreaterThan(0);
      expect((await generation()).name).toBe(before.name);
      if (isEnded) await worker.close();
      proxy.mode = 'forward';
      if (isEnded) {
        worker = await openClickHouseWorker();
        await worker.once([organizationId]);
        await change();
        await worker.once([organizationId]);
        const later = await generation();
        await proxy.deliver();
        expect(await generation()).toEqual(later);
      } else {
        await proxy.deliver();
        const late = await generation();
        expect(late.asOf).toBeGreaterThan(before.asOf);
        expect(await published()).toEqual(changed);
        const isHeld = proxy.hold(/^insert into purchase_change_v/i);
        await change();
        const running = worker.once([organizationId]);
        const release = await isHeld;
        expect((await generation()).asOf).toBeGreaterThanOrEqual(late.asOf);
        release();
        await running;
        expect((await generation()).asOf).toBeGreaterThan(late.asOf);
      }
      await expectEqual();
    },
  );

  it.for([false, true])(
    'shows either load if the insert that publishes the later one fails (another worker: %s)',
    async (isEnded, {
      database: { pool },
      newShop: { organizationId },
      newCustomerId,
      clickHouseProxy: proxy,
      openClickHouseWorker,
      generation,
      expectEqual,
    }) => {
      await addPurchases(pool, organizationId, newCustomerId, 100);
      const change = () => pool.query(`${addACent} where organization_id = $1`, [organizationId]);
      let worker = await openClickHouseWorker({ maxLogRecords: 10 });
      await worker.once([organizationId]);
      const { loadId } = await generation();

      await change();
      Object.assign(proxy, { mode: 'delay', breaking: /^insert into generation_v/i });
      await expect(worker.once([organizationId])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBeGreaterThan(0);
      expect((await generation()).loadId).toBe(loadId);
      if (isEnded) await worker.close();
      proxy.mode = 'forward';
      if (isEnded) worker = await openClickHouseWorker();
      await change();
      await worker.once([organizationId]);
      expect((await generation()).loadId === loadId).toBe(isEnded);
      await proxy.deliver();
      expect((await generation()).loadId === loadId).toBe(isEnded);
      await expectEqual();
      await change();
      await worker.once([organizationId]);
      await expectEqual();
    },
  );

  it('reports that the server is gone, and catches up when it is back', async ({
    database: { pool },
    directory,
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
    const failure = () => readWorkerState(directory, everyOrganization)?.failure ?? null;
    const worker = await openClickHouseWorker();
    await worker.once([organizationId]);
    const stop = follow(worker);
    const gone = {
      message: expect.stringContaining('ClickHouse cannot be used'),
      advice: expect.stringContaining('CLICKHOUSE_URL'),
    };
    // Without changes, and with changes.
    for (const values of [[], [organizationId]]) {
      proxy.mode = 'refuse';
      while (failure() === null) await sleep(20);
      expect(failure()).toMatchObject(gone);
      const { name } = await generation();
      if (values.length > 0) await pool.query(`${addACent} where organization_id = $1`, values);
      await sleep(300);
      expect((await generation()).name).toBe(name);
      proxy.mode = 'forward';
      while (!areEqual(await published(), await stored())) await sleep(20);
      while (failure() !== null) await sleep(20);
    }
    await stop();
    await expectEqual();
  });
});
