import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { createPostgresProxy } from '../support/postgres-proxy.ts';
import { childrenOf as processesOf } from '../support/processes.ts';
import type { Program } from '../support/program.ts';
import { addPurchases } from '../support/shop.ts';
import { connectTo, readResponses } from '../support/sockets.ts';

/** The processes that a program has started. */
const childrenOf = ({ child }: Program) => processesOf(child.pid);

const isRunning = (id: number): boolean => {
  try {
    return process.kill(id, 0);
  } catch {
    return false;
  }
};

/** Temporary files, which a killed process leaves and a stopped one does not. */
const leftovers = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /^spill\/.|\.tmp$|^\.probe/.test(name),
  );

const isKilled =
  /"msg":"stopping takes longer than SHUTDOWN_TIMEOUT_SECONDS; the process ends at once"\}\n$/;

const it = test
  .extend('startedApi', async ({ program }) => async (environment: Record<string, string> = {}) => {
    const api = program('src/commands/api.ts', [], {
      METRICS_LISTEN: '127.0.0.1:0',
      RATE_LIMIT_PER_MINUTE: '1000000',
      EXPORTS_PER_KEY: '4',
      ...environment,
    });
    const [, port] = await api.printed(/Listening on http:\/\/127\.0\.0\.1:(\d+)/);
    return { api, client: await connectTo(Number(port)) };
  })
  /** A proxy of Postgres. After `freeze`, no connection gets a response. */
  .extend('proxy', async ({ database }, { onCleanup }) => {
    const proxy = await createPostgresProxy(database.url);
    onCleanup(proxy.close);
    return {
      ...proxy,
      freeze: () => {
        proxy.mode = 'discard';
        proxy.freeze();
      },
    };
  })
  .extend('request', ({ shop }) => (path: string) => {
    const authorization = `Authorization: Bearer ${shop.secret}`;
    return `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${authorization}\r\n\r\n`;
  });

describe('SIGTERM', () => {
  it.beforeAll(async ({ database, shop, customerId, worker }) => {
    // 45 MB as CSV: more than the buffers of a connection, which Linux extends to 36 MiB.
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents, order_number)
       select $1, $2, number,
         (select string_agg(md5((number + part / 100.0)::text), '') from generate_series(1, 31) as part)
       from generate_series(1, 45000) as number`,
      [shop.organizationId, customerId],
    );
    await worker.syncAll();
  });

  it('ends the API after its responses, without a rest', { tags: ['slow'] }, async ({
    directory,
    startedApi,
    request,
  }) => {
    const { api, client } = await startedApi();
    const paths = [
      '/v1/me',
      '/v1/purchases?limit=100',
      '/v1/customers',
      '/v1/purchases/stats?group_by=day',
      '/v1/purchases/export?format=csv&min_value_in_cents=40000',
    ];
    let isStopping = false;
    let served = 0;
    let count = 0;
    // Few clients: the export process has a low priority, and would get no processor time.
    const load = Array.from({ length: 3 }, async () => {
      for (;;) {
        count += 1;
        const path = paths[count % paths.length] as string;
        const url = path.includes('?') ? `${path}&max_value_in_cents=${100_000 + count}` : path;
        // Rejects if the response is cut off.
        const answers = await client.sendBytes(request(url));
        // The API has not accepted the connection.
        if (answers.length === 0 && isStopping) return;
        expect([200, 429]).toContain(answers[0]?.status);
        served += 1;
      }
    });
    const exporting = client.openSocket(request('/v1/purchases/export?format=csv'));
    await once(exporting, 'readable');
    await expect.poll(() => served).toBeGreaterThan(30);
    const children = childrenOf(api);
    expect(children.length).toBeGreaterThan(0);
    isStopping = true;
    const ended = api.end('SIGTERM');
    await Promise.all(load);
    // The client reads its export only now.
    const [file] = readResponses((await buffer(exporting)).toString('latin1'));
    expect(file?.status).toBe(200);
    expect(file?.body.match(/pur_/g)).toHaveLength(45_000);
    expect(await ended).toBe(0);
    client.close();
    expect(children.filter(isRunning)).toEqual([]);
    expect(leftovers(directory)).toEqual([]);
  });

  it('ends the API after SHUTDOWN_TIMEOUT_SECONDS, although an export runs', {
    tags: ['slow'],
  }, async ({ directory, startedApi, request }) => {
    const { api, client } = await startedApi({ SHUTDOWN_TIMEOUT_SECONDS: '1' });
    const unread = client.openSocket(request('/v1/purchases/export?format=csv'));
    await once(unread, 'readable');
    const children = childrenOf(api);
    expect(children).toHaveLength(1);
    expect(await api.end('SIGTERM')).toBe(0);
    unread.destroy();
    client.close();
    expect(children.filter(isRunning)).toEqual([]);
    expect(leftovers(directory)).toEqual([]);
  });

  it.for([
    ['the API', 'src/commands/api.ts', /Listening on http:\/\/127\.0\.0\.1:(\d+)/],
    [
      'npm start and its worker',
      'src/commands/start.ts',
      /The API is at http:\/\/127\.0\.0\.1:(\d+)[\s\S]*Ctrl-C stops everything/,
    ],
    ['the worker during a load', 'sync/main.ts', /"msg":"loading"/],
  ] as const)(
    'ends %s 10 s after SHUTDOWN_TIMEOUT_SECONDS, although Postgres is frozen',
    { tags: ['slow'] },
    async ([_, path, started], { newDirectory, program, proxy, request, execute }) => {
      const running = program(path, [], {
        DATABASE_URL: proxy.url,
        DATA_DIR: newDirectory,
        SHUTDOWN_TIMEOUT_SECONDS: '1',
        LOG_LEVEL: 'debug',
      });
      const [, port] = await running.printed(started);
      if (port !== undefined) {
        const client = await connectTo(Number(port));
        // When the API stops, it records the use of the key, and closes idle connections.
        expect((await client.sendBytes(request('/v1/customers')))[0]?.status).toBe(200);
        client.close();
      }
      const children = childrenOf(running);
      expect(children).toHaveLength(path === 'src/commands/start.ts' ? 1 : 0);
      proxy.freeze();
      await running.end('SIGTERM');
      expect(running.child.signalCode).toBe('SIGKILL');
      expect(running.output()).toMatch(isKilled);
      expect(children.filter(isRunning)).toEqual([]);
      if (path !== 'sync/main.ts') return;
      await proxy.close();
      for (const command of ['once', 'verify']) {
        const { code, output } = await execute('sync', [command], { DATA_DIR: newDirectory });
        expect(code, output).toBe(0);
      }
    },
  );

  it('ends the worker during a load and during changes, without a rest', {
    tags: ['slow'],
  }, async ({ database, newDirectory, program, shop, customerId, execute }) => {
    const stores = {
      DATA_DIR: newDirectory,
      SYNC_METRICS_LISTEN: '127.0.0.1:0',
      LOG_LEVEL: 'debug',
    };
    const locks = async () => {
      const { rowCount } = await database.pool.query(
        `select from pg_locks join pg_database on oid = database
         where locktype = 'advisory' and datname = current_database()`,
      );
      return rowCount;
    };
    await addPurchases(database.pool, shop.organizationId, customerId, 30_000);
    const loading = program('sync/main.ts', ['run'], stores);
    await loading.printed(/"msg":"loading"/);
    expect(await loading.end('SIGTERM')).toBe(0);
    expect(leftovers(newDirectory)).toEqual([]);
    expect(await locks()).toBe(0);

    const following = program('sync/main.ts', ['run'], stores);
    let isStopping = false;
    const writing = (async () => {
      while (!isStopping) await addPurchases(database.pool, shop.organizationId, customerId, 1);
    })();
    await (await scraperOf(following)).until('crm_sync_applied_rows_total');
    expect(await following.end('SIGTERM')).toBe(0);
    isStopping = true;
    await writing;
    expect(leftovers(newDirectory)).toEqual([]);
    expect(await locks()).toBe(0);

    for (const command of ['once', 'verify']) {
      expect((await execute('sync', [command], { DATA_DIR: newDirectory })).code).toBe(0);
    }
  });
});
