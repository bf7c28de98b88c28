import sql from 'sql-template-tag';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { openClickHouse } from '../../src/engines/clickhouse/client.ts';
import { feedPartition, table } from '../../src/engines/clickhouse/schema.ts';
import { readClickHouseTicks } from '../../src/engines/clickhouse/ticks.ts';
import { servedSourceOf } from '../../src/purchase-store/ticks/published.ts';
import { retainChangeLog } from '../../sync/capture/change-log.ts';
import { expectRefusal } from '../http/refusal.ts';
import { purchasesById } from '../support/follower.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';
import { follow } from '../support/sync.ts';
import { createTestClickHouseEngine } from './database.ts';
import { clickHouseTest } from './fixtures.ts';

const url = '/v1/purchases/changes';
const purchases = 30;
const idOf = (id: bigint) => encodeId('purchase', id);

const it = clickHouseTest
  .extend('expectSame', ({ replica, follower }) => async (limit?: number) => {
    await follower.catchUp(limit);
    expect(new Map(follower.purchases)).toEqual(await purchasesById(replica.pool, replica.id));
  })
  .extend('addPublished', ({ replica }) => async () => {
    await replica.add(purchases);
    await replica.sync();
  })
  /** The follower then has all purchases. */
  .extend('addFollowed', ({ addPublished, follower }) => async () => {
    await addPublished();
    await follower.catchUp();
  })
  /** Changes purchases of the shop by a condition, and deletes the first one of them. */
  .extend('change', ({ replica }) => async (condition: string) => {
    await replica.change(condition);
    const first = `organization_id = ${replica.id} and ${condition}`;
    await replica.delete(`id = (select min(id) from purchases where ${first})`);
  });

describe('the change feed of ClickHouse', () => {
  it('begins with no changes, and then has each change, as it is now', async ({
    newCustomerId,
    addPublished,
    request,
    follower,
    expectSame,
    replica,
  }) => {
    await addPublished();
    const begin = await request(url);
    expect(begin.json()).toEqual({ data: [], has_more: false, next_cursor: expect.any(String) });
    await follower.catchUp();
    const { rows } = await replica.pool.query<{ id: bigint }>(
      'select id from purchases where organization_id = $1 order by id limit 2',
      [replica.id],
    );
    const [first, second] = rows.map(({ id }) => id) as [bigint, bigint];
    const added = await addPurchase(replica.pool, replica.id, {
      customer_id: newCustomerId,
      utm_source: 'tab\tand\nline \\ break',
    });
    await replica.sync();
    await replica.change(`id in (${first}, ${second})`);
    await replica.sync();
    await replica.delete(`id = ${first}`);
    await replica.sync();
    const page = (await request(`${url}?cursor=${begin.json().next_cursor}`)).json();
    expect(page.data).toMatchObject([
      { id: idOf(added), deleted: false, utm_source: 'tab\tand\nline \\ break' },
      { id: idOf(second), deleted: false },
      { object: 'purchase', id: idOf(first), deleted: true },
    ]);
    expect(page.has_more).toBe(false);
    const unchanged = await request(`${url}?cursor=${page.next_cursor}`);
    expect(unchanged.json()).toEqual({ ...page, data: [] });
    const ndjson = await request(`${url}?cursor=${begin.json().next_cursor}&format=ndjson`);
    expect(ndjson.body.trimEnd().split('\n')).toHaveLength(3);
    await expectSame(1);
    expect(follower.copies).toBe(1);
  });

  it('shows a purchase that moves as deleted in one feed, and as added in the other', async ({
    database: { pool },
    shop,
    openApi,
    addPublished,
    request,
    replica,
  }) => {
    await addPublished();
    const worker = await replica.openWorker();
    const both = [replica.id, shop.organizationId];
    await worker.once(both);
    const api = await openApi();
    const ofOther = (query = '') => api.get(`${url}${query}`, shop.secret);
    const before = (await request(url)).json().next_cursor;
    const otherBefore = (await ofOther()).json().next_cursor;
    const { rows } = await pool.query<{ id: bigint }>(
      `update purchases set organization_id = $1, customer_id = $2
       where id = (select min(id) from purchases where organization_id = $3) returning id`,
      [shop.organizationId, await addCustomer(pool, shop.organizationId), replica.id],
    );
    await worker.once(both);
    const id = idOf((rows[0] as { id: bigint }).id);
    expect((await request(`${url}?cursor=${before}`)).json().data).toMatchObject([
      { id, deleted: true },
    ]);
    expect((await ofOther(`?cursor=${otherBefore}`)).json().data).toMatchObject([
      { id, deleted: false },
    ]);
    expectRefusal(await ofOther(`?cursor=${before}`), 'conflict', 'cursor');
  });

  it.for([
    'a compaction',
    'a rebuild',
    'a rebuild by another worker',
    'many changes at once',
    'a change of the number of workers',
  ] as const)(
    'goes on after %s',
    { tags: ['slow'] },
    async (kind, { addFollowed, change, follower, expectSame, replica }) => {
      await addFollowed();
      const { loadId } = await replica.generation();
      const options = {
        maxLogRecords: kind === 'a compaction' ? 5 : 1_000,
        maxTickChanges: kind === 'many changes at once' ? 5 : 1_000,
      };
      let worker = await replica.openWorker(options);
      for (let round = 0; round < 3; round += 1) {
        await change(`id % 3 = ${round}`);
        if (kind === 'a change of the number of workers') {
          await worker.close();
          const of = 2 - (round % 2);
          const shard = { of, number: Number(replica.id % BigInt(of)) + 1 };
          worker = await replica.openWorker({ ...options, shard });
        } else if (kind === 'a rebuild by another worker') {
          await worker.close();
          worker = await replica.openWorker(options);
        }
        if (kind.startsWith('a rebuild')) await worker.rebuild(replica.id);
        await follower.step(3);
        await worker.once([replica.id]);
        await follower.step(3);
      }
      const isReplaced = kind !== 'a change of the number of workers';
      expect((await replica.generation()).loadId !== loadId).toBe(isReplaced);
      await replica.expectEqual();
      await expectSame(3);
      expect(follower.copies).toBe(1);
    },
  );

  it('goes on after failed inserts of each table', { tags: ['slow'] }, async ({
    addFollowed,
    clickHouseProxy: proxy,
    change,
    follower,
    expectSame,
    replica,
  }) => {
    await addFollowed();
    const worker = await replica.openWorker();
    for (const name of ['purchase_feed', 'purchase_change', 'tick', 'generation']) {
      for (const mode of ['halve', 'keep response', 'delay'] as const) {
        const broken = proxy.broken;
        Object.assign(proxy, { mode, breaking: new RegExp(`^insert into ${name}_v`, 'i') });
        await change(`id % ${2 + (broken % 3)} = 0`);
        const publish = () =>
          name === 'generation' ? worker.rebuild(replica.id) : worker.once([replica.id]);
        await publish().catch(() => {});
        expect(proxy.broken).toBeGreaterThan(broken);
        await follower.step(3);
        proxy.mode = 'forward';
        await change(`id % 5 > 0`);
        await worker.once([replica.id]);
        await follower.step(3);
        await proxy.deliver();
        await expectSame(3);
      }
    }
    expect(follower.copies).toBe(1);
  });

  it('has the changes of a tick also if the tick before it is inserted after they were appended', async ({
    clickhouse,
    server,
    addFollowed,
    clickHouseProxy: proxy,
    openTicks,
    change,
    follower,
    expectSame,
  }) => {
    await addFollowed();
    const through = openClickHouse({ ...server.options, url: proxy.url });
    const { store, tick } = await openTicks(through);
    Object.assign(proxy, { mode: 'halve', breaking: /^insert into tick_v/i });
    await change('id % 2 = 0');
    await tick();
    expect(proxy.broken).toBe(1);
    proxy.mode = 'forward';
    await change('id % 3 = 0');
    const { publish } = store;
    store.publish = async (content) => {
      const before = await readClickHouseTicks(clickhouse);
      await store.sync(
        (work) => work(),
        async () => {},
      );
      expect(await readClickHouseTicks(clickhouse)).not.toEqual(before);
      await follower.catchUp();
      await publish(content);
    };
    await tick();
    await expectSame();
    expect(follower.copies).toBe(1);
    await through.close();
  });

  it.skipIf(process.env.TEST_CLICKHOUSE_CLUSTER !== undefined).for([false, true])(
    'misses no change after ClickHouse is restored (read before the worker starts: %s)',
    { tags: ['slow'] },
    async (isReadBefore, { clickhouse, addPublished, change, follower, expectSame, replica }) => {
      // So that the worker can go on from the restored tables.
      await retainChangeLog(replica.pool, 'another reader');
      await addPublished();
      const worker = await replica.openWorker();
      await change('id % 2 = 0');
      await worker.once([replica.id]);
      const names = Object.values(table);
      for (const name of names) {
        await clickhouse.run(sql`create or replace table ${name}_copy as ${name}`);
        await clickhouse.run(sql`insert into ${name}_copy select * from ${name}`);
      }
      await change('id % 3 = 0');
      await worker.once([replica.id]);
      await expectSame();
      await worker.close();
      for (const name of names) {
        await clickhouse.run(sql`truncate table ${name}`);
        await clickhouse.run(sql`insert into ${name} select * from ${name}_copy`);
      }
      if (isReadBefore) await follower.catchUp();
      await change('id % 5 = 0');
      await replica.openSynced();
      await expectSame(3);
      // Before the worker starts, the position is later than all that ClickHouse has.
      expect(follower.copies).toBe(isReadBefore ? 2 : 1);
    },
  );

  it('refuses a cursor after a load whose changes are not known', async ({
    addFollowed,
    follower,
    expectSame,
    replica,
  }) => {
    await addFollowed();
    const worker = await replica.openWorker();
    await worker.rebuild(replica.id, true);
    await expectSame();
    expect(follower.copies).toBe(2);
  });

  it('refuses cursors older than the retention, whose changes are removed', async ({
    clickhouse,
    addFollowed,
    change,
    request,
    follower,
    expectSame,
    replica,
  }) => {
    await addFollowed();
    const { feed, changesUntil } = await replica.generation();
    const dayBefore = changesUntil - 2n * BigInt(feedPartition);
    const old = sql`where organization_id = ${replica.id} and number = ${dayBefore}`;
    await clickhouse.run(sql`
      insert into ${table.purchase_feed} select ${replica.id}, ${dayBefore}, 1`);
    const countOld = async () => {
      const [row] = await clickhouse.query(sql`select count() from ${table.purchase_feed} ${old}`);
      return Number(row?.[0]);
    };
    const read = () => request(`${url}?cursor=${feed}.${dayBefore}.0`);
    expect((await read()).json().data).toHaveLength(1);
    const worker = await replica.openWorker({ changesRetentionMs: 60_000 });
    await change('id % 2 = 0');
    await worker.once([replica.id]);
    expectRefusal(await read(), 'conflict', 'cursor');
    const stop = follow(worker);
    while ((await countOld()) > 0);
    await stop();
    await expectSame();
    expect(follower.copies).toBe(1);
    // It stays refused.
    await worker.close();
    await replica.openSynced();
    expectRefusal(await read(), 'conflict', 'cursor');
  });

  it('refuses what is no cursor, and cursors that it never gave', async ({
    addPublished,
    request,
  }) => {
    const none = await request(url);
    expectRefusal(none, 'conflict');
    expect(none.headers['retry-after']).toBe('5');
    await addPublished();
    const cursor: string = (await request(url)).json().next_cursor;
    for (const text of ['abc', cursor.toUpperCase(), `${cursor}.1.1`]) {
      expectRefusal(await request(`${url}?cursor=${text}`), 'invalid_request', 'cursor');
    }
    const [feed, number = ''] = cursor.split('.');
    for (const made of [
      `${'0'.repeat(12)}.${number}.0`,
      `${feed}.${BigInt(number) + 3_600_000_000n}.0`,
      `${feed}.${number}.9223372036854775808`,
      `${feed}.1.0`,
      `${feed}.${number}.0.0`,
      `${feed}.1a.0.`,
    ]) {
      expectRefusal(await request(`${url}?cursor=${made}`), 'conflict', 'cursor');
    }
  });

  it('wakes requests that wait, when their organization has changes', async ({
    addPublished,
    change,
    openApi,
    request,
    replica,
  }) => {
    await addPublished();
    const worker = await replica.openSynced();
    const cursor = (await request(url)).json().next_cursor;
    const source = servedSourceOf(await replica.generation());
    const { changes } = await openApi();
    const stopped = new AbortController();
    const wait = (signal?: AbortSignal) =>
      changes.read(
        replica.id,
        source,
        { after: cursor, limit: 10 },
        { waitMs: 600_000, signal, ended: stopped.signal },
      );
    const requests = [wait(), wait()];
    const leave = new AbortController();
    const left = wait(leave.signal);
    // A tick without changes is no change.
    await worker.once([replica.id]);
    const short = await request(`${url}?cursor=${cursor}&wait=1`);
    expect(short.json()).toEqual({ data: [], has_more: false, next_cursor: expect.any(String) });
    leave.abort(new Error('the client disconnected'));
    await expect(left).rejects.toThrow('the client disconnected');
    await change('id % 7 = 0');
    await worker.once([replica.id]);
    for (const each of requests) expect((await each).changes).not.toEqual([]);
    const after = async (position: string) =>
      (await request(`${url}?cursor=${position}&limit=1000`)).json();
    const { data, next_cursor: end } = await after(cursor);
    expect((await after(short.json().next_cursor)).data).toEqual(data);
    const waiting = changes.read(
      replica.id,
      source,
      { after: end, limit: 10 },
      { waitMs: 600_000, ended: stopped.signal },
    );
    await request(`${url}?cursor=${end}`);
    stopped.abort();
    expect((await waiting).changes).toEqual([]);
  });

  it('fails requests that wait once the server cannot be reached', async ({
    addPublished,
    server,
    clickHouseProxy: proxy,
    request,
    replica,
  }) => {
    await addPublished();
    const source = servedSourceOf(await replica.generation());
    const engine = createTestClickHouseEngine({ ...server.options, url: proxy.url });
    const after = (await request(url)).json().next_cursor;
    const query = { after, limit: 10 };
    const waiting = engine.changes.read(replica.id, source, query, { waitMs: 600_000 });
    const failed = expect(waiting).rejects.toThrow(/ClickHouse/);
    await engine.changes.read(replica.id, source, query);
    proxy.mode = 'refuse';
    await failed;
    await engine.close();
  });
});
