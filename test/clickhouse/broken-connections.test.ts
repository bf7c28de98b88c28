import { setTimeout as sleep } from 'node:timers/promises';
import { Registry } from 'prom-client';
import sql from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { table } from '../../src/engines/clickhouse/schema.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { createWorkerMetrics } from '../../sync/metrics/metrics.ts';
import { readWorkerState } from '../../sync/status/worker-status.ts';
import { createRecordedLog } from '../support/logged-lines.ts';
import { areEqual } from '../support/published.ts';
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
    async ([mode, , breaking], { clickhouse, clickHouseProxy: proxy, replica }) => {
      await replica.add(100);
      const worker = await replica.openSynced();
      const before = {
        generation: await replica.generation(),
        purchases: await replica.published(),
      };
      await replica.change();
      Object.assign(proxy, { mode, breaking });
      await expect(worker.once([replica.id])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBe(1);
      const [row] = await clickhouse.query(sql`
        select count() from ${table.purchase_change}
        where organization_id = ${replica.id} and sign > 0`);
      expect(Number(row?.[0])).toBeGreaterThan(0);
      expect({
        generation: await replica.generation(),
        purchases: await replica.published(),
      }).toEqual(before);

      proxy.mode = 'forward';
      await worker.once([replica.id]);
      await replica.expectEqual();
      await replica.change('id % 2 = 0');
      await worker.once([replica.id]);
      await replica.expectEqual();
    },
  );

  it('never shows a batch that arrives late, of itself or of a worker before it', async ({
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(100);
    let worker = await replica.openSynced();
    for (const isEnded of [false, true]) {
      await replica.change();
      proxy.mode = 'delay';
      await expect(worker.once([replica.id])).rejects.toThrow(/ClickHouse/);
      proxy.mode = 'forward';
      if (isEnded) {
        await worker.close();
        worker = await replica.openWorker();
      }
      await replica.change();
      await worker.once([replica.id]);
      await proxy.deliver();
      await replica.expectEqual();
      await replica.change();
      await worker.once([replica.id]);
      await replica.expectEqual();
    }
    expect(proxy.broken).toBe(2);
  });

  it.for([false, true])(
    'shows a tick whose insert failed and arrives late, and later ones (another worker: %s)',
    async (isEnded, { clickHouseProxy: proxy, replica }) => {
      await replica.add(100);
      let worker = await replica.openSynced();
      const before = await replica.generation();

      await replica.change();
      const changed = await replica.stored();
      Object.assign(proxy, { mode: 'delay', breaking: /^insert into tick_v/i });
      await expect(worker.once([replica.id])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBeGreaterThan(0);
      expect((await replica.generation()).name).toBe(before.name);
      if (isEnded) await worker.close();
      proxy.mode = 'forward';
      if (isEnded) {
        worker = await replica.openSynced();
        await replica.change();
        await worker.once([replica.id]);
        const later = await replica.generation();
        await proxy.deliver();
        expect(await replica.generation()).toEqual(later);
      } else {
        await proxy.deliver();
        const late = await replica.generation();
        expect(late.asOf).toBeGreaterThan(before.asOf);
        expect(await replica.published()).toEqual(changed);
        const isHeld = proxy.hold(/^insert into purchase_change_v/i);
        await replica.change();
        const running = worker.once([replica.id]);
        const release = await isHeld;
        expect((await replica.generation()).asOf).toBeGreaterThanOrEqual(late.asOf);
        release();
        await running;
        expect((await replica.generation()).asOf).toBeGreaterThan(late.asOf);
      }
      await replica.expectEqual();
    },
  );

  it.for([false, true])(
    'shows either load if the insert that publishes the later one fails (another worker: %s)',
    async (isEnded, { clickHouseProxy: proxy, replica }) => {
      await replica.add(100);
      let worker = await replica.openSynced({ maxLogRecords: 10 });
      const { loadId } = await replica.generation();

      await replica.change();
      Object.assign(proxy, { mode: 'delay', breaking: /^insert into generation_v/i });
      await expect(worker.once([replica.id])).rejects.toThrow(/ClickHouse/);
      expect(proxy.broken).toBeGreaterThan(0);
      expect((await replica.generation()).loadId).toBe(loadId);
      if (isEnded) await worker.close();
      proxy.mode = 'forward';
      if (isEnded) worker = await replica.openWorker();
      await replica.change();
      await worker.once([replica.id]);
      expect((await replica.generation()).loadId === loadId).toBe(isEnded);
      await proxy.deliver();
      expect((await replica.generation()).loadId === loadId).toBe(isEnded);
      await replica.expectEqual();
      await replica.change();
      await worker.once([replica.id]);
      await replica.expectEqual();
    },
  );

  it('receives the progress of statements that take hours', async ({
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(10);
    proxy.progressHeaders = 1_000;
    await replica.openSynced();
    await replica.expectEqual();
  });

  it('reports that the server is gone, and catches up when it is back', async ({
    directory,
    clickHouseProxy: proxy,
    replica,
  }) => {
    await replica.add(100);
    const failure = () => readWorkerState(directory, everyOrganization)?.failure ?? null;
    const worker = await replica.openSynced();
    const stop = follow(worker);
    const gone = {
      message: expect.stringContaining('ClickHouse cannot be used'),
      advice: expect.stringContaining('CLICKHOUSE_URL'),
    };
    // Without changes, and with changes.
    for (const isChanged of [false, true]) {
      proxy.mode = 'refuse';
      while (failure() === null) await sleep(20);
      expect(failure()).toMatchObject(gone);
      const { name } = await replica.generation();
      if (isChanged) await replica.change();
      await sleep(300);
      expect((await replica.generation()).name).toBe(name);
      proxy.mode = 'forward';
      while (!areEqual(await replica.published(), await replica.stored())) await sleep(20);
      while (failure() !== null) await sleep(20);
    }
    await stop();
    await replica.expectEqual();
  });

  it('logs the loss of the server and its return once each, and counts no poll in between', async ({
    clickHouseProxy: proxy,
    replica,
  }) => {
    const changes: string[] = [];
    const log = createRecordedLog((line) => {
      const { stage, msg } = JSON.parse(line);
      if (stage === 'poll') changes.push(msg);
    });
    const registry = new Registry();
    const worker = await replica.openSynced({ log, metrics: createWorkerMetrics(registry) });
    const stop = follow(worker);
    const polls = async () =>
      /poll_duration_seconds_count (\d+)/.exec(await registry.metrics())?.[1];
    proxy.mode = 'refuse';
    while (changes.length === 0) await sleep(20);
    const pollsBefore = await polls();
    const instant = worker.state().lastPoll?.instant;
    const brokenBefore = proxy.broken;
    while (proxy.broken < brokenBefore + 5) await sleep(20);
    expect(changes).toEqual([expect.stringContaining('ClickHouse cannot be used')]);
    expect(await polls()).toBe(pollsBefore);
    expect(worker.state().lastPoll?.instant).toBe(instant);

    proxy.mode = 'forward';
    while (changes.length === 1) await sleep(20);
    while (worker.state().lastPoll?.instant === instant) await sleep(20);
    expect(changes.slice(1)).toEqual(['works again']);
    await stop();
  });
});
