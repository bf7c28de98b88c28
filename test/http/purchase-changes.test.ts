import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { LightMyRequestResponse } from 'fastify';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { isolatedTest as test } from '../support/fixtures.ts';
import { createFollower, purchasesById } from '../support/follower.ts';
import { publishedLog } from '../support/published-files.ts';
import {
  addACent,
  addCustomer,
  addKey,
  addPurchase,
  addPurchases,
  withoutCapture,
} from '../support/shop.ts';
import type { TestWorker, TestWorkerOptions } from '../support/sync.ts';
import { expectRefusal } from './refusal.ts';

const url = '/v1/purchases/changes';
const retention = { changesRetentionMs: 86_400_000, changesMaxBytes: 2 ** 30 };
const purchases = 30;

const it = test
  .extend(
    'open',
    ({ openWorker }) =>
      (options: TestWorkerOptions = {}): Promise<TestWorker> =>
        openWorker({ ...retention, ...options }),
  )
  .extend(
    'publish',
    ({ database, shop, customerId, open }) =>
      async (options: TestWorkerOptions = {}): Promise<TestWorker> => {
        await addPurchases(database.pool, shop.organizationId, customerId, purchases);
        const opened = await open(options);
        await opened.syncAll();
        return opened;
      },
  )
  /** A worker that has published some purchases in a log. */
  .extend('published', ({ publish }) => publish())
  /** The same, in a base. */
  .extend('publishedBase', ({ publish }) => publish({ maxPurchasesWithoutBase: 0 }))
  .extend('follower', ({ get }) => createFollower(get))
  .extend('expectSame', ({ database, shop, follower }) => async (limit?: number) => {
    await follower.catchUp(limit);
    expect(new Map(follower.purchases)).toEqual(
      await purchasesById(database.pool, shop.organizationId),
    );
  })
  /** The ids of all changes since a cursor, those of deleted purchases with a minus. */
  .extend('changesSince', ({ get }) => async (cursor: string | null, limit = 1_000) => {
    const response = await get(`${url}?cursor=${cursor}&limit=${limit}`);
    expect(response.statusCode, response.body).toBe(200);
    return response
      .json()
      .data.map(({ id, deleted }: { id: string; deleted: boolean }) =>
        deleted ? `-${id}` : id,
      ) as string[];
  });

const idOf = (id: bigint) => encodeId('purchase', id);

describe('the change feed', () => {
  it('begins with no changes, and then has each change once, as it is now', async ({
    database,
    shop,
    customerId,
    published,
    get,
    changesSince,
    follower,
    expectSame,
  }) => {
    const begin = await get(url);
    expect(begin.json()).toEqual({ data: [], has_more: false, next_cursor: expect.any(String) });
    expect(begin.headers['x-data-as-of']).toMatch(/Z$/);
    await follower.catchUp();
    const [first, second] = (
      await database.pool.query<{ id: bigint }>('select id from purchases order by id limit 2')
    ).rows.map(({ id }) => id) as [bigint, bigint];
    const added = await addPurchase(database.pool, shop.organizationId, {
      customer_id: customerId,
      utm_source: 'tab\tand\nline \\ break',
    });
    await published.syncAll();
    await database.pool.query(`${addACent} where id in ($1, $2)`, [first, second]);
    await published.syncAll();
    await database.pool.query('delete from purchases where id = $1', [first]);
    await published.syncAll();
    const cursor = begin.json().next_cursor;
    expect(await changesSince(cursor)).toEqual([idOf(added), idOf(second), `-${idOf(first)}`]);
    const one = await get(`${url}?cursor=${cursor}&limit=1`);
    expect(one.json()).toMatchObject({
      has_more: true,
      data: [{ id: idOf(added), deleted: false }],
    });
    expect(one.json().data[0].utm_source).toBe('tab\tand\nline \\ break');
    await expectSame(1);
    expect(follower.copies).toBe(1);
  });

  it('has pages that end within a tick', async ({ database, published, follower, expectSame }) => {
    await follower.catchUp();
    await database.pool.query(`${addACent}, order_number = id::text`);
    await published.syncAll();
    for (let page = 0; page < 4; page += 1) expect(await follower.step(7)).toBe(true);
    await database.pool.query('delete from purchases where id % 3 = 0');
    await published.syncAll();
    await expectSame(7);
    expect(follower.copies).toBe(1);
  });

  it('shows a purchase that moves as deleted in one feed, and as added in the other', async ({
    database,
    published,
    api,
    shop,
    otherShop,
    get,
    changesSince,
  }) => {
    const ofOther = (query = '') => api.get(`${url}${query}`, otherShop.secret);
    const before = (await get(url)).json().next_cursor;
    const otherBefore = (await ofOther()).json().next_cursor;
    const customer = await addCustomer(database.pool, otherShop.organizationId);
    const { rows } = await database.pool.query<{ id: bigint }>(
      `update purchases set organization_id = $1, customer_id = $2
       where id = (select min(id) from purchases where organization_id = $3) returning id`,
      [otherShop.organizationId, customer, shop.organizationId],
    );
    await published.syncAll();
    const moved = idOf((rows[0] as { id: bigint }).id);
    expect(await changesSince(before)).toEqual([`-${moved}`]);
    const theirs = await ofOther(`?cursor=${otherBefore}`);
    expect(theirs.json().data).toMatchObject([{ id: moved, deleted: false }]);
    // A cursor finds nothing in the logs of another organization.
    expectRefusal(await ofOther(`?cursor=${before}`), 'conflict', 'cursor');
  });

  it('shows nothing of a tick that is not published', async ({
    published,
    folder,
    get,
    changesSince,
  }) => {
    const cursor = (await get(url)).json().next_cursor;
    appendFileSync(publishedLog(folder), 't\t1000000\nd\t1\n');
    expect(await changesSince(cursor)).toEqual([]);
    expect((await get(url)).json().next_cursor).toBe(cursor);
    expect(published).toBeDefined();
  });

  it('refuses what is no cursor, and cursors that it never gave', async ({ published, get }) => {
    expect(published).toBeDefined();
    const cursor: string = (await get(url)).json().next_cursor;
    for (const text of ['abc', `${cursor}.1`, cursor.toUpperCase(), encodeURIComponent('a b')]) {
      expectRefusal(await get(`${url}?cursor=${text}`), 'invalid_request', 'cursor');
    }
    const [log, batch = '', record, checksum] = cursor.split('.');
    const at = Number.parseInt(batch, 36);
    for (const made of [
      `${'0'.repeat(12)}.0.0.`,
      `${log}.${(at + 1).toString(36)}.${record}.${checksum}`,
      `${log}.${at.toString(36)}.5.zzz`,
      `${log}.${(at + 1).toString(36)}.1.zzz`,
      `${log}.0.0.zz`,
    ]) {
      const { error } = expectRefusal(await get(`${url}?cursor=${made}`), 'conflict', 'cursor');
      expect(error.message).toContain('export');
    }
    for (const query of ['limit=0', 'limit=1001', 'wait=31', 'status=paid', 'starting_after=x']) {
      const [name = ''] = query.split('=');
      expectRefusal(await get(`${url}?${query}`), 'validation_error', name);
    }
  });

  it('has no changes before purchases are published, and none of another database', async ({
    database,
    shop,
    get,
    published,
  }) => {
    await database.pool.query('update organizations set identity = gen_random_uuid()');
    const response = await get(url);
    expectRefusal(response, 'conflict');
    expect(response.headers['retry-after']).toBe('5');
    await published.syncAll();
    expect((await get(url)).statusCode).toBe(200);
    expect(shop).toBeDefined();
  });

  it('has an ETag, and rows in other formats', async ({ database, published, get }) => {
    const cursor = (await get(url)).json().next_cursor;
    const empty = await get(`${url}?cursor=${cursor}`);
    const unchanged = { 'if-none-match': String(empty.headers.etag) };
    expect((await get(`${url}?cursor=${cursor}`, unchanged)).statusCode).toBe(304);
    await database.pool.query('delete from purchases where id = (select min(id) from purchases)');
    await database.pool.query(`${addACent} where id = (select max(id) from purchases)`);
    await published.syncAll();
    const json = await get(`${url}?cursor=${cursor}`, unchanged);
    expect(json.statusCode).toBe(200);
    const ndjson = await get(`${url}?cursor=${cursor}&format=ndjson`);
    const lines = ndjson.body.trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(json.json().data);
    expect(ndjson.headers['x-next-cursor']).toBe(json.json().next_cursor);
    expect(ndjson.headers['x-has-more']).toBe('false');
    const csv = await get(`${url}?cursor=${cursor}`, { accept: 'text/csv' });
    const [names = '', ...rows] = csv.body.trimEnd().split('\r\n');
    expect(names).toMatch(/^id,customer_id,.*,attributed_flow_ids,deleted$/);
    expect(rows.map((row) => row.split(',').at(-1)).sort()).toEqual(['false', 'true']);
  });
});

describe('a request that waits', () => {
  it('is answered when something changes', async ({ database, published, get, open }) => {
    const cursor = (await get(url)).json().next_cursor;
    let isAnswered = false;
    const waiting = get(`${url}?cursor=${cursor}&wait=30`).finally(() => {
      isAnswered = true;
    });
    // A tick without changes is no change.
    await published.syncAll();
    expect((await get(`${url}?cursor=${cursor}`)).json().data).toEqual([]);
    expect(isAnswered).toBe(false);
    await database.pool.query(`${addACent} where id % 2 = 0`);
    await published.syncAll();
    const { data, next_cursor: next } = (await waiting).json();
    expect(data.length).toBeGreaterThan(1);
    const afterCompaction = get(`${url}?cursor=${next}&wait=30`);
    await published.close();
    const worker = await open({ maxLogRecords: 5, maxTickChanges: 5 });
    await worker.syncAll();
    await database.pool.query(addACent);
    await worker.syncAll();
    expect((await afterCompaction).statusCode).toBe(200);
    expect(await changesOf(get, next)).toHaveLength(purchases);
  });

  it('is answered without changes after its time, and at once if the server stops', async ({
    published,
    startApi,
    shop,
  }) => {
    expect(published).toBeDefined();
    const { app, get } = await startApi();
    const cursor = (await get(url, shop.secret)).json().next_cursor;
    const short = await get(`${url}?cursor=${cursor}&wait=1`, shop.secret);
    expect(short.json()).toEqual({ data: [], has_more: false, next_cursor: cursor });
    const waiting = get(`${url}?cursor=${cursor}&wait=30`, shop.secret);
    await get(url, shop.secret);
    await app.close();
    expect((await waiting).json().data).toEqual([]);
  });

  it('is refused beyond ten of one key, whose disconnected clients do not count', async ({
    database,
    published,
    shop,
    api,
    get,
  }) => {
    expect(published).toBeDefined();
    const cursor = (await get(url)).json().next_cursor;
    const wait = `${url}?cursor=${cursor}&wait=30`;
    const origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
    const disconnecting = new AbortController();
    const headers = { authorization: `Bearer ${shop.secret}` };
    const requests = Array.from({ length: 11 }, () =>
      // biome-ignore lint/style/noRestrictedGlobals: a client that disconnects
      fetch(origin + wait, { headers, signal: disconnecting.signal }),
    );
    const first = await Promise.race(requests);
    expect(first.status).toBe(429);
    expect(first.headers.get('retry-after')).toBe('1');
    const other = await addKey(database.pool, shop.organizationId);
    expect((await api.get(wait.replace('=30', '=1'), other.secret)).statusCode).toBe(200);
    disconnecting.abort();
    await Promise.allSettled(requests);
    while ((await get(wait.replace('=30', '=1'))).statusCode === 429);
  });
});

const changesOf = async (
  get: (url: string) => Promise<LightMyRequestResponse>,
  cursor: string,
): Promise<unknown[]> => (await get(`${url}?cursor=${cursor}`)).json().data;

describe('the change feed goes on', () => {
  it.for([
    'a compaction',
    'compactions without a base',
    'a rebuild',
    'many changes at once',
    'a restart of the worker',
  ] as const)(
    'after %s',
    { tags: ['slow'] },
    async (kind, { database, shop, publish, open, folder, follower, expectSame }) => {
      const maxPurchasesWithoutBase = kind === 'compactions without a base' ? 1_000 : 0;
      const published = await publish({ maxPurchasesWithoutBase });
      await follower.catchUp();
      const change = async (condition: string) => {
        await database.pool.query(`${addACent} where ${condition}`);
        await database.pool.query(
          `delete from purchases where id = (select min(id) from purchases where ${condition})`,
        );
      };
      await change('id % 2 = 0');
      await published.syncAll();
      await published.close();
      const worker = await open({
        maxLogRecords:
          kind.startsWith('a compaction') || kind.startsWith('compactions') ? 5 : 1_000,
        maxTickChanges: kind === 'many changes at once' ? 5 : 1_000,
        maxPurchasesWithoutBase,
      });
      const log = publishedLog(folder);
      await follower.step(3);
      for (let round = 0; round < 3; round += 1) {
        await change(`id % 3 = ${round}`);
        if (kind === 'a rebuild') {
          await worker.rebuild(shop.organizationId);
        }
        await worker.syncAll();
      }
      if (kind !== 'a restart of the worker') expect(publishedLog(folder)).not.toBe(log);
      await expectSame(3);
      expect(follower.copies).toBe(1);
    },
  );
});

describe('the change feed begins anew', () => {
  it.for([
    [
      'changes are missing in the change log',
      `alter table purchases disable trigger log_deleted_purchases;
       delete from purchases where id % 2 = 0;
       alter table purchases enable trigger log_deleted_purchases`,
    ],
    ['the table is emptied', 'truncate purchases'],
  ] as const)('if %s', async ([, statements], { database, published, follower, expectSame }) => {
    await follower.catchUp();
    await database.pool.query(statements);
    await published.syncAll();
    await expectSame();
    expect(follower.copies).toBe(2);
  });

  it('after a rebuild of files that differ from Postgres, with what the log of changes lacks', async ({
    database,
    shop,
    publishedBase,
    follower,
    expectSame,
  }) => {
    await follower.catchUp();
    await withoutCapture(
      database.pool,
      `${addACent} where id % 2 = 0;
       delete from purchases where id in (select min(id) from purchases)`,
    );
    await publishedBase.rebuild(shop.organizationId, true);
    await expectSame();
    expect(follower.copies).toBe(2);
  });

  it('if a log was replaced longer ago than replaced logs stay, or has too many bytes', async ({
    database,
    published,
    open,
    folder,
    follower,
    expectSame,
  }) => {
    await follower.catchUp();
    await published.close();
    for (const [options, copies] of [
      [{}, 1],
      [{ changesMaxBytes: 100 }, 2],
      [{ changesRetentionMs: 0 }, 3],
    ] as const) {
      await database.pool.query(addACent);
      const worker = await open({ ...options, maxLogRecords: 5 });
      await worker.syncAll();
      await worker.close();
      await expectSame();
      expect(follower.copies).toBe(copies);
    }
    expect(readdirSync(folder).filter((name) => name.endsWith('.tsv'))).toHaveLength(1);
  });

  it('if a replaced log is missing, or damaged before the position', async ({
    database,
    publishedBase,
    open,
    folder,
    get,
  }) => {
    const cursor = (await get(url)).json().next_cursor;
    const log = publishedLog(folder);
    await database.pool.query(addACent);
    await publishedBase.close();
    const worker = await open({ maxPurchasesWithoutBase: 0, maxLogRecords: 5 });
    await worker.syncAll();
    expect(publishedLog(folder)).not.toBe(log);
    expect((await get(`${url}?cursor=${cursor}`)).json().data).toHaveLength(purchases);
    const content = readFileSync(log, 'latin1');
    writeFileSync(log, content.replace('u\t', 'v\t'), 'latin1');
    expectRefusal(await get(`${url}?cursor=${cursor}`), 'conflict', 'cursor');
    writeFileSync(log, content.slice(0, -10), 'latin1');
    expectRefusal(await get(`${url}?cursor=${cursor}`), 'conflict', 'cursor');
    rmSync(log);
    expectRefusal(await get(`${url}?cursor=${cursor}`), 'conflict', 'cursor');
  });
});
