import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, onTestFinished } from 'vitest';
import type { PurchaseEngine } from '../../src/domain/purchase-engine.ts';
import { createPostgresEngine } from '../../src/engines/postgres/engine.ts';
import type { ExportWriter } from '../../src/http/resource-services.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { test as it } from '../support/fixtures.ts';
import { testServices } from '../support/services.ts';
import { addCustomer, addKey } from '../support/shop.ts';
import { listenAndConnect, type SocketClient } from '../support/sockets.ts';
import { recordedLog } from './recorded-log.ts';
import { expectRefusal } from './refusal.ts';

const mebibyte = 2 ** 20;
const requestBytes = (secret: string, query = '', headers = '') =>
  `GET /v1/purchases/export?${query} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n${headers}\r\n`;

/** Reads a chunked response to its end, with a pause after each mebibyte. Returns its length. */
async function readToEnd(socket: AsyncIterable<Buffer>, pauseMs = 0): Promise<number> {
  let bytes = 0;
  let end = '';
  for await (const part of socket) {
    const before = Math.floor(bytes / mebibyte);
    bytes += part.length;
    end = (end + part.toString('latin1')).slice(-7);
    await sleep(pauseMs * (Math.floor(bytes / mebibyte) - before));
  }
  expect(end).toBe('\r\n0\r\n\r\n');
  return bytes;
}

describe('the clients of an export', () => {
  it.beforeAll(async ({ database, shop, otherShop, customerId, worker }) => {
    // 26 MB, and 15 MB compressed: more than the buffers of a socket.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number,
         order_id_on_integration_platform, created_at)
       select $1, $2, number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 32) as part),
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(33, 47) as part),
         timestamptz '2020-01-01Z' + number * interval '1 second'
       from generate_series(1, 16000) as number`,
      [shop.organizationId, customerId],
    );
    await worker.once([shop.organizationId, otherShop.organizationId]);
  });

  describe.each(['postgres', 'duckdb'] as const)('from %s', (name) => {
    let engine: PurchaseEngine;
    let api: TestApi;
    let client: SocketClient;
    const { log, lines } = recordedLog();
    const exports = { open: 0 };
    /** The number of bytes that each export has written, oldest first. */
    const written: { bytes: number }[] = [];
    const small = 'created_until=2020-01-01T00:00:09Z&format=ndjson';

    const watched = (all: PurchaseEngine): PurchaseEngine => ({
      ...all,
      forSource: (source) => watched({ ...all, ...all.forSource(source) }),
      export: async (...given) => {
        exports.open += 1;
        return all.export(...given).finally(() => {
          exports.open -= 1;
        });
      },
    });
    const counted = (write: ExportWriter): ExportWriter =>
      async function* (...given) {
        const own = { bytes: 0 };
        written.push(own);
        for await (const part of write(...given)) {
          own.bytes += part.length;
          yield part;
        }
      };

    it.beforeAll(async ({ database, directory }) => {
      engine =
        name === 'duckdb'
          ? await createTestDuckDBEngine(directory)
          : createPostgresEngine(database.pool);
      const services = testServices(database.pool, watched(engine));
      api = await createTestApi(database.pool, join(directory, 'empty'), {
        services: { ...services, writeExport: counted(services.writeExport) },
        exportsPerKey: 2,
        exportConcurrency: 3,
        queryTimeoutMs: 60_000,
        log,
      });
      client = await listenAndConnect(api.app);
      return async () => {
        client.close();
        await api.close();
        await engine.close();
      };
    });

    const get = (query: string, secret: string) => api.get(`/v1/purchases/export?${query}`, secret);
    const untilOpen = async (count: number) => {
      while (exports.open !== count) await sleep(5);
    };

    it('receive the headers of GET for HEAD, for which no purchase is read', async ({ shop }) => {
      const found = await get(small, shop.secret);
      written.length = 0;
      const head = await client.send({
        method: 'HEAD',
        url: `/v1/purchases/export?${small}`,
        headers: { authorization: `Bearer ${shop.secret}` },
      });
      expect(head.status).toBe(200);
      expect(head.headers['content-type']).toBe(found.headers['content-type']);
      expect(head.headers).not.toHaveProperty('content-length');
      expect(head.headers).toHaveProperty('content-disposition');
      expect(written.filter(({ bytes }) => bytes > 0)).toEqual([]);
    });

    it('are sent no more than they read, and have a limit of concurrent exports', {
      tags: ['slow'],
    }, async ({ database, shop, otherShop }) => {
      const second = (await addKey(database.pool, shop.organizationId)).secret;
      const third = (await addKey(database.pool, otherShop.organizationId)).secret;
      lines.length = 0;
      written.length = 0;
      const open = (secret: string, encoding: string) => {
        const headers = `Accept-Encoding: ${encoding}\r\n`;
        const socket = client.openSocket(requestBytes(secret, '', headers));
        return socket.once('data', () => socket.pause());
      };
      const sockets = [open(shop.secret, 'identity'), open(shop.secret, 'gzip')];
      onTestFinished(() => {
        for (const socket of sockets) socket.destroy();
      });
      await untilOpen(2);
      const { retry_after: seconds } = expectRefusal(await get(small, shop.secret), 'rate_limited');
      expect(seconds).toBeGreaterThanOrEqual(1);

      while (written.filter(({ bytes }) => bytes > 0).length < 2) await sleep(5);
      // The third slot is one of other organizations.
      expectRefusal(await get(small, second), 'rate_limited');
      expect((await get('', third)).statusCode).toBe(200);
      sockets.pop()?.destroy();
      await untilOpen(1);
      const whole = await get('', second);
      expect(whole.statusCode).toBe(200);
      expect(whole.rawPayload.length).toBeGreaterThan(24 * mebibyte);
      // The other export waits for its client.
      await untilOpen(1);
      expect(written[0]?.bytes).toBeLessThan(20 * mebibyte);
      // A disconnect ends the export, without an error and without an open transaction.
      for (const socket of sockets) socket.destroy();
      await untilOpen(0);
      expect(lines.filter((line) => !line.includes('"level":30'))).toEqual([]);
      const inTransaction = `select from pg_stat_activity
        where datname = current_database() and state like 'idle in%'`;
      while ((await database.pool.query(inTransaction)).rowCount !== 0) await sleep(10);
      // The last byte of an export frees its slot.
      for (let round = 0; round < 10; round += 1) {
        expect((await get(small, shop.secret)).statusCode).toBe(200);
      }
    });
  });

  it('hold no transaction of Postgres open while they do not read', { tags: ['slow'] }, async ({
    database,
    shop,
    startServer,
  }) => {
    const services = testServices(database.pool, createPostgresEngine(database.pool));
    const { client } = await startServer({ services, queryTimeoutMs: 60_000 });
    for (const [format, minBytes] of [
      ['ndjson', 25],
      ['parquet', 10],
    ] as const) {
      const socket = client.openSocket(
        requestBytes(shop.secret, `format=${format}`, 'Connection: close\r\n'),
      );
      await once(
        socket.once('data', () => socket.pause()),
        'data',
      );
      const locked = `select from pg_locks join pg_class on pg_class.oid = relation
        where relname = 'purchases' and pg_locks.pid <> pg_backend_pid()`;
      while ((await database.pool.query(locked)).rowCount !== 0) await sleep(10);
      await database.pool.query('alter table purchases alter column status drop default');
      expect(await readToEnd(socket)).toBeGreaterThan(minBytes * mebibyte);
    }
  });

  it('that read slowly receive everything', { tags: ['slow'] }, async ({
    database,
    newShop,
    startServer,
  }) => {
    // One batch of more than the buffers of sockets, with longer texts than Postgres accepts.
    await database.pool.query('alter table purchases drop constraint texts_at_most_1024_bytes');
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, number, repeat('x', 12000) from generate_series(1, 1900) as number`,
      [newShop.organizationId, await addCustomer(database.pool, newShop.organizationId)],
    );
    const services = testServices(database.pool, createPostgresEngine(database.pool));
    const { client } = await startServer({ services, queryTimeoutMs: 2_000 });
    const socket = client.openSocket(
      requestBytes(newShop.secret, 'format=ndjson', 'Connection: close\r\n'),
    );
    // All pauses together exceed the timeout, and none of them does alone.
    expect(await readToEnd(socket, 150)).toBeGreaterThan(21 * mebibyte);
  });

  it('receive an incomplete response if an export fails after its first byte, and an error before', {
    tags: ['slow'],
  }, async ({ database, engine: purchases, shop, startApi }) => {
    const api = await startApi({ services: testServices(database.pool, purchases) });
    const client = await listenAndConnect(api.app);
    const socket = client.openSocket(requestBytes(shop.secret));
    let received = '';
    const closed = once(socket, 'close');
    await new Promise<void>((resolve) => {
      socket.setEncoding('latin1').on('data', (part: string) => {
        if (received === '') socket.pause();
        received += part;
        resolve();
      });
    });
    // Interrupts the export.
    await purchases.close();
    socket.resume();
    await closed;
    const [head = ''] = received.toLowerCase().split('\r\n\r\n', 1);
    expect(head).toContain('http/1.1 200 ok');
    expect(head).toContain('transfer-encoding: chunked');
    // Without the last chunk, the response is incomplete.
    expect(received.endsWith('\r\n0\r\n\r\n')).toBe(false);
    const refused = await api.get('/v1/purchases/export', shop.secret);
    expectRefusal(refused, 'internal_error');
    expect(refused.headers).not.toHaveProperty('content-disposition');
    client.close();
  });
});
