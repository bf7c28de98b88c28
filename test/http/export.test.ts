import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import type { ExportWriter } from '../../src/http/services.ts';
import { purchaseTable } from '../../src/resources/purchase-table.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { awkwardPurchase } from '../support/awkward-purchases.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { connectTo, type SocketClient } from '../support/sockets.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';
import { exactly, fileReader, objectsIn, readArrow, rowsOfJson } from './formats/reading.ts';
import { recordedLog } from './recorded-log.ts';
import { expectRefusal } from './refusal.ts';

describe.each(['postgres', 'duckdb'] as const)('the export of purchases, from %s', (name) => {
  let database: TestDatabase;
  let folder: Awaited<ReturnType<typeof temporaryDirectory>>;
  let files: Awaited<ReturnType<typeof fileReader>>;
  let engine: PurchaseEngine;
  let api: TestApi;
  let client: SocketClient;
  let organization: bigint;
  let secret: string;
  /** Exports that are open, and bytes that were written. */
  const seen = { open: 0, bytes: 0 };
  const recorded = recordedLog();

  const watched = (all: PurchaseEngine): PurchaseEngine => ({
    ...all,
    forSource: (source) => watched({ ...all, ...all.forSource(source) }),
    export: async (...asked) => {
      seen.open += 1;
      try {
        return await all.export(...asked);
      } finally {
        seen.open -= 1;
      }
    },
  });
  const counting = (write: ExportWriter): ExportWriter =>
    async function* counted(...asked) {
      for await (const part of write(...asked)) {
        seen.bytes += part.length;
        yield part;
      }
    };

  beforeAll(async () => {
    database = await createTestDatabase();
    folder = await temporaryDirectory();
    files = await fileReader();
    organization = await addOrganization(database.pool);
    ({ secret } = await addKey(database.pool, organization));
    const customers = [
      await addCustomer(database.pool, organization),
      await addCustomer(database.pool, organization),
    ];
    for (const values of fc.sample(awkwardPurchase(customers), { numRuns: 150, seed: 11 })) {
      await addPurchase(database.pool, organization, values);
    }
    // Some tens of megabytes, compressed as well: no socket's buffers hold them.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number,
         order_id_on_integration_platform, status, created_at)
       select $1, $2, number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 32) as part),
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(33, 47) as part),
         'bulk',
         timestamptz '2020-01-01' + number * interval '1 second'
       from generate_series(1, 24000) as number`,
      [organization, customers[0]],
    );
    if (name === 'duckdb') {
      const worker = await createTestWorker(database.pool, folder.path);
      await worker.syncAll();
      await worker.close();
    }
    const base = await createTestApi(database.pool, folder.path);
    engine = base.purchases;
    const services = testServices(database.pool, watched(engine));
    api = await createTestApi(database.pool, folder.path, {
      services: { ...services, writeExport: counting(services.writeExport) },
      exportsPerKey: 2,
      exportConcurrency: 3,
      queryTimeoutMs: 60_000,
      log: recorded.log,
    });
    const { close } = api;
    api = { ...api, close: async () => Promise.all([close(), base.close()]).then(() => {}) };
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    client = await connectTo((api.app.server.address() as AddressInfo).port);
  });
  afterAll(async () => {
    client.close();
    await api.close();
    await files.close();
    await database.drop();
    await folder.remove();
  });

  const small = 'created_until=2019-01-01T00:00:00Z';
  const get = async (query: string, headers: Record<string, string> = {}, key = secret) => {
    recorded.lines.length = 0;
    const response = await api.get(`/v1/purchases/export?${query}`, key, headers);
    // The log says why.
    expect(response.statusCode, recorded.lines.join('')).not.toBe(500);
    return response;
  };
  const untilOpen = async (count: number) => {
    while (seen.open !== count) await sleep(5);
  };
  const ask = (key = secret, query = '', headers = '') =>
    client.ask(
      `GET /v1/purchases/export${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${headers}\r\n`,
    );

  /** The rows of the list, page by page, as objects' JSON by id. */
  async function listed(filters: string): Promise<string[]> {
    const objects: string[] = [];
    for (let cursor = ''; ; ) {
      const { body } = await api.get(`/v1/purchases?limit=100&${filters}${cursor}`, secret);
      objects.push(...objectsIn(body, 'data'));
      if (!body.includes('"has_more":true')) return objects.sort(byId);
      cursor = `&starting_after=${exactly(objects.at(-1) as string).id}`;
    }
  }
  const idOf = (object: string): string => String(exactly(object).id);
  const byId = (a: string, b: string): number => (idOf(a) < idOf(b) ? -1 : 1);

  it.each(['', 'status=paid&', 'status=voided&'])(
    'has the rows of the list in every format: %s',
    async (filter) => {
      const filters = `${filter}${small}`;
      const objects = await listed(filters);
      const rows = rowsOfJson(purchaseTable.columns, objects);
      const sorted = <Row extends readonly (string | null)[]>(of: readonly Row[]) =>
        [...of].sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
      const lines = (await get(`format=ndjson&${filters}`)).body.split('\n').slice(0, -1);
      expect(lines.sort(byId).map(exactly)).toEqual(objects.map(exactly));
      const read = await files.readCsv((await get(filters)).rawPayload);
      expect(read.names).toEqual(purchaseTable.columns.map((column) => column.name));
      expect(sorted(read.rows)).toEqual(rows);
      const arrow = await get(`format=arrow&${filters}`);
      expect(sorted(readArrow(arrow.rawPayload).rows)).toEqual(rows);
      const parquet = await files.readParquet((await get(`format=parquet&${filters}`)).rawPayload);
      expect(sorted(parquet.rows)).toEqual(rows);
      expect(Object.keys(parquet.types)).toEqual(read.names);
      expect(parquet.types).toMatchObject({
        id: 'VARCHAR',
        purchase_value_in_cents: 'BIGINT',
        created_at: 'TIMESTAMP WITH TIME ZONE',
        payment_status: 'VARCHAR',
      });
    },
  );

  it('is whole, however many batches it comes in', async () => {
    const { body } = await get('format=ndjson');
    const ids = body.split('\n').slice(0, -1).map(idOf);
    expect(ids).toHaveLength(24_150);
    expect(new Set(ids).size).toBe(24_150);
    const { rawPayload } = await get('format=arrow');
    expect(
      readArrow(rawPayload)
        .rows.map(([id]) => id)
        .sort(),
    ).toEqual(ids.sort());
  });

  it('is a file that says which instant it shows; CSV unless something else is liked', async () => {
    const plain = await get(small);
    expect(plain.headers['content-type']).toBe('text/csv; charset=utf-8; header=present');
    const instant = String(plain.headers['x-data-as-of']).replaceAll(/[-:]/g, '');
    expect(plain.headers['content-disposition']).toBe(
      `attachment; filename="purchases-${instant}.csv"`,
    );
    for (const [accept, type] of [
      ['*/*', 'text/csv; charset=utf-8; header=present'],
      ['application/json', 'text/csv; charset=utf-8; header=present'],
      ['application/x-ndjson', 'application/x-ndjson'],
      ['application/vnd.apache.arrow.stream', 'application/vnd.apache.arrow.stream'],
      ['application/vnd.apache.parquet', 'application/vnd.apache.parquet'],
    ] as const) {
      expect((await get(small, { accept })).headers['content-type']).toBe(type);
    }
    expect((await get(`${small}&format=ndjson`)).headers['content-disposition']).toMatch(
      /\.ndjson"$/,
    );
  });

  it('counts as one request, and refuses what it does not take', async () => {
    const countedTwice = async (): Promise<number[]> => {
      const [first, second] = [(await get(small)).headers, (await get(small)).headers];
      // Another minute may have begun, and counts anew.
      if (first['x-ratelimit-reset'] !== second['x-ratelimit-reset']) return countedTwice();
      return [first, second].map((headers) => Number(headers['x-ratelimit-remaining']));
    };
    const [before = 0, after] = await countedTwice();
    expect(after).toBe(before - 1);
    expectRefusal(await get('format=json'), 'validation_error', 'format');
    expectRefusal(await get('limit=5'), 'validation_error', 'limit');
    expectRefusal(await get('status=nonsense'), 'validation_error', 'status');
    expectRefusal(await api.get('/v1/purchases/export'), 'authentication_error');
  });

  it("shows no other organization's purchases", async () => {
    const other = await addKey(database.pool, await addOrganization(database.pool));
    expect((await get('format=ndjson', {}, other.secret)).body).toBe('');
  });

  it('of HEAD has the headers of GET, and reads nothing', async () => {
    const found = await get(`${small}&format=ndjson`);
    const before = seen.bytes;
    const head = await client.send({
      method: 'HEAD',
      url: `/v1/purchases/export?${small}&format=ndjson`,
      headers: { authorization: `Bearer ${secret}` },
    });
    expect(head.status).toBe(200);
    expect(head.headers['content-type']).toBe(found.headers['content-type']);
    expect(head.headers).not.toHaveProperty('content-length');
    expect(head.headers).toHaveProperty('content-disposition');
    expect(seen.bytes).toBe(before);
  });

  it.each(['identity', 'gzip'])(
    'reads no further than a reader who stops, and lets go of it when that one leaves: %s',
    async (encoding) => {
      const before = seen.bytes;
      recorded.lines.length = 0;
      const socket = ask(secret, '', `Accept-Encoding: ${encoding}\r\n`);
      socket.once('data', () => socket.pause());
      await untilOpen(1);
      // Until nothing moves any more, for want of a reader.
      for (let last = -1; seen.bytes === before || last !== seen.bytes; ) {
        last = seen.bytes;
        await sleep(300);
      }
      expect(seen.bytes - before).toBeLessThan(30 * 2 ** 20);
      socket.destroy();
      await untilOpen(0);
      const { rows } = await database.pool.query(
        `select from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      );
      expect(rows).toEqual([]);
      // Nothing failed.
      expect(recorded.lines.filter((line) => !line.includes('"level":30'))).toEqual([]);
    },
  );

  it('has left its place when its end arrives', async () => {
    const one = await createTestApi(database.pool, folder.path, {
      exportsPerKey: 1,
      exportConcurrency: 1,
    });
    try {
      const url = `/v1/purchases/export?${small}&format=ndjson`;
      // Each of DuckDB's starts a process.
      for (let round = 0; round < (name === 'duckdb' ? 4 : 20); round += 1) {
        expect((await one.get(url, secret)).statusCode).toBe(200);
      }
    } finally {
      await one.close();
    }
  });

  it('of which as many as are allowed run already is refused, of a key and in all', async () => {
    const [second, third] = [
      await addKey(database.pool, organization),
      await addKey(database.pool, organization),
    ];
    const sockets = [ask(), ask()];
    await untilOpen(2);
    const { retry_after: seconds } = expectRefusal(await get(small), 'rate_limited');
    expect(seconds).toBeGreaterThanOrEqual(1);
    expect((await get(small, {}, second.secret)).statusCode).toBe(200);
    await untilOpen(2);
    sockets.push(ask(second.secret));
    await untilOpen(3);
    expectRefusal(await get(small, {}, third.secret), 'rate_limited');
    for (const socket of sockets) socket.destroy();
    await untilOpen(0);
    expect((await get(small)).statusCode).toBe(200);
  });
});

describe('an export of few purchases, to a slow reader', () => {
  it('goes on for as long as anything moves', async () => {
    const database = await createTestDatabase();
    const folder = await temporaryDirectory();
    const organization = await addOrganization(database.pool);
    const { secret } = await addKey(database.pool, organization);
    // One batch, of more than the buffers of sockets hold: rows from before migration 007.
    await database.pool.query('alter table purchases drop constraint texts_at_most_1024_bytes');
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, number, repeat('x', 25000) from generate_series(1, 1900) as number`,
      [organization, await addCustomer(database.pool, organization)],
    );
    const api = await createTestApi(database.pool, folder.path, { queryTimeoutMs: 2_000 });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const client = await connectTo((api.app.server.address() as AddressInfo).port);
    const socket = client.ask(
      `GET /v1/purchases/export?format=ndjson HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
    );
    let bytes = 0;
    let paused = 0;
    let end = '';
    for await (const part of socket as AsyncIterable<Buffer>) {
      bytes += part.length;
      end = (end + part.toString('latin1')).slice(-7);
      for (; paused < bytes / 2 ** 20; paused += 1) await sleep(100);
    }
    expect(bytes).toBeGreaterThan(45 * 2 ** 20);
    expect(end).toBe('\r\n0\r\n\r\n');
    client.close();
    await api.close();
    await database.drop();
    await folder.remove();
  });
});

describe('an export that fails', () => {
  it('after its first byte breaks the connection, and before it is an error as any other', async () => {
    const database = await createTestDatabase();
    const folder = await temporaryDirectory();
    const organization = await addOrganization(database.pool);
    const { secret } = await addKey(database.pool, organization);
    const customer = await addCustomer(database.pool, organization);
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number, utm_term)
       select $1, $2, number, repeat('x', 1000), repeat('x', 500) from generate_series(1, 24000) as number`,
      [organization, customer],
    );
    const worker = await createTestWorker(database.pool, folder.path);
    await worker.syncAll();
    await worker.close();
    const purchases = await createTestDuckDBEngine(folder.path);
    const api = await createTestApi(database.pool, folder.path, {
      services: testServices(database.pool, purchases),
    });
    await api.app.listen({ host: '127.0.0.1', port: 0 });
    const client = await connectTo((api.app.server.address() as AddressInfo).port);
    try {
      const socket = client.ask(
        `GET /v1/purchases/export HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
      );
      let received = '';
      const broken = new Promise<void>((resolve) => {
        socket.on('close', () => resolve());
      });
      await new Promise<void>((resolve) => {
        socket.setEncoding('latin1').on('data', (part: string) => {
          if (received === '') socket.pause();
          received += part;
          resolve();
        });
      });
      // What is under way is interrupted.
      await purchases.close();
      socket.resume();
      await broken;
      const [head = ''] = received.toLowerCase().split('\r\n\r\n', 1);
      expect(head).toContain('http/1.1 200 ok');
      expect(head).toContain('transfer-encoding: chunked');
      // The last chunk, which says that the answer is whole, never came.
      expect(received.endsWith('\r\n0\r\n\r\n')).toBe(false);
      const refused = await api.get('/v1/purchases/export', secret);
      expectRefusal(refused, 'internal_error');
      expect(refused.headers).not.toHaveProperty('content-disposition');
    } finally {
      client.close();
      await api.close();
      await database.drop();
      await folder.remove();
    }
  });
});
