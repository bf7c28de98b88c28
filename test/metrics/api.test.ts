import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { test } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { runProgram } from '../support/program.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { connectTo, type SocketClient } from '../support/sockets.ts';

const rateLimit = 400;
const failedKeyLimit = 8;

/** Low limits, so that few requests exceed them. */
const environment = {
  LOG_LEVEL: 'info',
  PORT: '0',
  METRICS_LISTEN: '127.0.0.1:0',
  RATE_LIMIT_PER_MINUTE: String(rateLimit),
  FAILED_KEYS_PER_MINUTE: String(failedKeyLimit),
  DATABASE_POOL_SIZE: '2',
  QUERY_CONCURRENCY: '1',
  QUERY_QUEUE_LIMIT: '4',
  QUERY_QUEUE_LIMIT_PER_KEY: '4',
  EXPORTS_PER_KEY: '1',
  UNREAD_MIB_PER_KEY: '1',
};

const it = test
  /** A running API with its metrics, which all tests of the file share. */
  .extend('service', { scope: 'file' }, async ({ database, directory }, { onCleanup }) => {
    const stores = { DATABASE_URL: database.url, DATA_DIR: directory };
    const program = runProgram('src/commands/api.ts', [], { ...environment, ...stores });
    let close = () => {};
    onCleanup(async () => {
      close();
      await program.end('SIGKILL');
    });
    const [, port] = await program.printed(/Listening on http:\/\/127\.0\.0\.1:(\d+)/);
    const client = await connectTo(Number(port));
    close = client.close;
    return { program, client, ...(await scraperOf(program)) };
  })
  /** GET with the key of a new shop. */
  .extend('send', async ({ service, database, shop }) => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    return (url: string, headers: Record<string, string> = {}) =>
      service.client.send({
        method: 'GET',
        url,
        headers: { authorization: `Bearer ${secret}`, ...headers },
      });
  })
  /** Begins an export that the client does not read. Returns after the first bytes. */
  .extend('beginExport', async ({ service, database, shop }, { onCleanup }) => {
    const { secret } = await addKey(database.pool, shop.organizationId);
    const sockets: ReturnType<SocketClient['openSocket']>[] = [];
    onCleanup(async () => {
      for (const socket of sockets) socket.destroy();
    });
    return async () => {
      const socket = service.client.openSocket(
        `GET /v1/purchases/export?format=csv HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
      );
      sockets.push(socket);
      await once(socket, 'readable');
      return socket;
    };
  });

let distinct = 0;
/** A query that no cache holds. */
const uncached = () => `/v1/purchases/stats?group_by=day&min_value_in_cents=${++distinct}`;

describe('the metrics of the API', () => {
  it.beforeAll(async ({ database, shop, customerId, worker }) => {
    // 20 MB as CSV: more than the buffers of a socket.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number,
         created_at)
       select $1, $2, number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 31) as part),
         timestamptz '2020-01-01Z' + number * interval '1 hour'
       from generate_series(1, 20000) as number`,
      [shop.organizationId, customerId],
    );
    await worker.syncAll();
  });

  it('count requests and their duration by route pattern and status', async ({ service, send }) => {
    const series = (route: string, status: number) =>
      `crm_http_request_duration_seconds_count{route="${route}",status="${status}"}`;
    const routes = [
      ['/v1/me', '/v1/me', 200],
      ['/v1/customers/cus_nobody', '/v1/customers/:customer_id', 404],
      ['/v1/purchases?limit=x', '/v1/purchases', 422],
      ['/v1/nothing/secret', 'unknown', 400],
      ['/v1/%ZZ', 'unknown', 400],
    ] as const;
    for (const [url, route, status] of routes) {
      const before = (await service.scrape()).value(series(route, status)) ?? 0;
      expect((await send(url)).status).toBe(status);
      const after = await service.until(({ value }) => value(series(route, status)) !== undefined);
      expect(after.value(series(route, status)), url).toBe(before + 1);
      expect(after.text).not.toMatch(/nobody|secret/);
    }
  });

  it('count failed keys, and requests beyond each limit', async ({
    service,
    database,
    shop,
    send,
  }) => {
    const limited = (limit: string) => `crm_limited_requests_total{limit="${limit}"}`;
    for (let request = 0; request <= failedKeyLimit; request += 1) {
      await service.client.send({ method: 'GET', url: '/v1/me', headers: {} });
    }
    const failed = await service.scrape();
    expect(failed.value('crm_failed_keys_total')).toBe(failedKeyLimit + 1);
    expect(failed.value(limited('failed_keys'))).toBe(1);

    const headers = {
      authorization: `Bearer ${(await addKey(database.pool, shop.organizationId)).secret}`,
    };
    for (let request = 0; request <= rateLimit; request += 1) {
      await service.client.send({ method: 'HEAD', url: '/v1/me', headers });
    }
    expect((await service.scrape()).value(limited('requests'))).toBe(1);

    await service.until(
      ({ value }) => (value(limited('query_queue')) ?? 0) > 0,
      () => Promise.all(Array.from({ length: 20 }, () => send(uncached()))),
    );
  });

  it('show running and waiting queries', async ({ service, send }) => {
    let isOver = false;
    const load = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!isOver) await send(uncached());
      }),
    );
    await service.until(
      ({ value }) =>
        value('crm_queries{state="running"}') === 1 &&
        (value('crm_queries{state="waiting"}') ?? 0) > 0,
    );
    isOver = true;
    await load;
    await service.until(({ value }) => value('crm_queries') === 0);
  });

  it('count hits and misses of the cache, and responses that requests share', async ({
    service,
    send,
  }) => {
    const reads = (result: string) => `crm_response_cache_reads_total{result="${result}"}`;
    const before = await service.scrape();
    const url = uncached();
    for (let request = 0; request < 3; request += 1) await send(url);
    const after = await service.scrape();
    expect(after.value(reads('miss'))).toBe((before.value(reads('miss')) ?? 0) + 1);
    expect(after.value(reads('hit'))).toBe((before.value(reads('hit')) ?? 0) + 2);
    await service.until(
      ({ value }) => (value(reads('shared')) ?? 0) > 0,
      () => {
        const same = uncached();
        return Promise.all([send(same), send(same), send(same)]);
      },
    );
  });

  it('show exports that run, that end, that clients abandon and that fail', async ({
    service,
    send,
    beginExport,
  }) => {
    const ended = (outcome: string) => `crm_export_duration_seconds_count{outcome="${outcome}"}`;
    const { body } = await send('/v1/purchases/export?format=csv');
    const whole = await service.until(({ value }) => value(ended('complete')) === 1);
    expect(whole.value('crm_export_bytes_total')).toBeGreaterThanOrEqual(body.length);
    expect(whole.value('crm_exports_running')).toBe(0);

    const before = whole.value(ended('disconnected')) ?? 0;
    const abandoned = await beginExport();
    await service.until(({ value }) => value('crm_exports_running') === 1);
    abandoned.destroy();
    await service.until(({ value }) => value(ended('disconnected')) === before + 1);

    const failing = await beginExport();
    const exporters = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' });
    const isExporter = new RegExp(
      `^\\s*(\\d+)\\s+${service.program.child.pid}\\s.*export-worker`,
      'm',
    );
    process.kill(Number(isExporter.exec(exporters)?.[1]), 'SIGKILL');
    failing.resume();
    await service.until(({ value }) => value(ended('failed')) === 1);
  });

  it('count exports and unread responses beyond the limits of a key', async ({
    service,
    database,
    shop,
  }) => {
    const limited = (limit: string) => `crm_limited_requests_total{limit="${limit}"}`;
    const { secret } = await addKey(database.pool, shop.organizationId);
    const request = (path: string) =>
      `GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`;
    const exports = request('/v1/purchases/export?format=csv');
    const sockets = [service.client.openSocket(exports), service.client.openSocket(exports)];
    await service.until(({ value }) => (value(limited('exports')) ?? 0) > 0);
    const reading = service.client.openSocket('');
    await service.until(
      ({ value }) => (value(limited('unread_responses')) ?? 0) > 0,
      async () => void reading.write(request('/v1/purchases?limit=100').repeat(10)),
    );
    for (const socket of [...sockets, reading]) socket.destroy();
  });

  it('count queries that Postgres answers, by the reason', async ({
    service,
    database,
    directory,
    worker,
  }) => {
    const fallbacks = (reason: string) => `crm_postgres_fallbacks_total{reason="${reason}"}`;
    const { pool } = database;
    const addShop = async () => {
      const organizationId = await addOrganization(pool);
      await addPurchases(pool, organizationId, await addCustomer(pool, organizationId), 5);
      const { secret } = await addKey(pool, organizationId);
      const headers = { authorization: `Bearer ${secret}` };
      const count = async () => {
        const url = '/v1/purchases/stats';
        const { status, body } = await service.client.send({ method: 'GET', url, headers });
        expect(status).toBe(200);
        expect(JSON.parse(body).purchase_count).toBe(5);
      };
      const folder = organizationDirectory(directory, organizationId);
      return { organizationId, folder, count };
    };
    const [unloaded, moved, unreadable, damaged] = [
      await addShop(),
      await addShop(),
      await addShop(),
      await addShop(),
    ];
    await unloaded.count();
    expect((await service.scrape()).value(fallbacks('not_loaded'))).toBe(1);
    for (const { organizationId } of [moved, unreadable, damaged]) {
      await worker.once([organizationId]);
    }

    await pool.query('update organizations set identity = gen_random_uuid() where id = $1', [
      moved.organizationId,
    ]);
    await moved.count();
    expect((await service.scrape()).value(fallbacks('other_database'))).toBe(1);

    const current = currentFile(unreadable.folder);
    const ofAnotherRelease = { ...JSON.parse(readFileSync(current, 'utf8')), layoutVersion: 1 };
    writeFileSync(current, JSON.stringify(ofAnotherRelease));
    await unreadable.count();
    expect((await service.scrape()).value(fallbacks('unreadable'))).toBe(1);

    const { file = '', base = '' } = readPublished(damaged.folder) ?? {};
    for (const name of [file, base]) writeFileSync(join(damaged.folder, name), 'x'.repeat(20_000));
    await damaged.count();
    await service.until(({ value }) => (value(fallbacks('damaged')) ?? 0) > 0);
  });

  it('show the open organizations, the age of the data and the memory of DuckDB', async ({
    service,
    send,
  }) => {
    await send('/v1/purchases/stats');
    const first = await service.scrape();
    expect(first.value('crm_open_organizations')).toBeGreaterThan(0);
    expect(first.value('crm_duckdb_bytes{storage="memory"}')).toBeGreaterThan(0);
    expect(first.value('crm_duckdb_bytes{storage="disk"}')).toBeGreaterThanOrEqual(0);
    // No worker confirms that the data are up to date.
    const age = first.value('crm_data_age_seconds') ?? 0;
    expect(age).toBeGreaterThan(0);
    await service.until(({ value }) => (value('crm_data_age_seconds') ?? 0) > age + 0.1);
  });

  it('show busy connections to Postgres, and requests that wait for one', async ({
    service,
    database,
    send,
  }) => {
    const locking = await database.pool.connect();
    await locking.query('begin; lock table segments in access exclusive mode');
    const waiting = [1, 2, 3].map((limit) => send(`/v1/segments?limit=${limit}`));
    await service.until(
      ({ value }) =>
        value('crm_postgres_connections{pool="lists",state="busy"}') === 2 &&
        value('crm_postgres_waiting_requests{pool="lists"}') === 1,
    );
    await locking.query('rollback');
    locking.release();
    for (const { status } of await Promise.all(waiting)) expect(status).toBe(200);
    await service.until(
      ({ value }) => value('crm_postgres_connections{pool="lists",state="idle"}') === 2,
    );
  });

  it('include the event loop and the memory of the process', async ({ service }) => {
    const { value } = await service.until(
      ({ value }) => (value('nodejs_eventloop_lag_p99_seconds') ?? 0) > 0,
    );
    expect(value('process_resident_memory_bytes')).toBeGreaterThan(10_000_000);
  });

  it('are served on their own port, for GET and HEAD, and not by the API', async ({
    service,
    send,
  }) => {
    const { status, headers } = await service.request();
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const head = await service.request('/metrics', 'HEAD');
    expect([head.status, await head.text()]).toEqual([200, '']);
    expect((await service.request('/metrics', 'POST')).status).toBe(405);
    expect((await service.request('/v1/me')).status).toBe(404);
    expect((await send('/metrics')).status).toBe(400);
  });
});

describe('a metrics address', () => {
  it('that is in use ends the API and the worker with one line', async ({ service, program }) => {
    const [, address = ''] =
      /"url":"http:\/\/([^"]+)\/metrics"/.exec(service.program.output()) ?? [];
    for (const [path, variable] of [
      ['src/commands/api.ts', 'METRICS_LISTEN'],
      ['sync/main.ts', 'SYNC_METRICS_LISTEN'],
      ['src/commands/start.ts', 'SYNC_METRICS_LISTEN'],
    ] as const) {
      const refused = program(path, [], { [variable]: address });
      expect(await refused.exited()).toBe(1);
      expect(refused.output()).toMatch(
        new RegExp(
          `^Port \\d+ of 127\\.0\\.0\\.1 is in use\\. Set ${variable} to another one\\.\\n$`,
        ),
      );
    }
  });
});
