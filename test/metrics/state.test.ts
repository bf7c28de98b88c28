import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { lockTables } from '../support/locks.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { measuredTest as it, uncached } from './measured-api.ts';

describe('the metrics of the API', () => {
  it('show running and waiting queries', { tags: ['slow'] }, async ({ service, send }) => {
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

  it('count queries that Postgres answers, by the reason', { tags: ['slow'] }, async ({
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
    const [unloaded, moved, older, unreadable, damaged] = [
      await addShop(),
      await addShop(),
      await addShop(),
      await addShop(),
      await addShop(),
    ];
    await unloaded.count();
    expect((await service.scrape()).value(fallbacks('not_loaded'))).toBe(1);
    for (const { organizationId } of [moved, older, unreadable, damaged]) {
      await worker.once([organizationId]);
    }

    await pool.query('update organizations set identity = gen_random_uuid() where id = $1', [
      moved.organizationId,
    ]);
    await moved.count();
    expect((await service.scrape()).value(fallbacks('other_database'))).toBe(1);

    const current = currentFile(older.folder);
    const ofAnotherRelease = { ...JSON.parse(readFileSync(current, 'utf8')), layoutVersion: 1 };
    writeFileSync(current, JSON.stringify(ofAnotherRelease));
    await older.count();
    expect((await service.scrape()).value(fallbacks('not_loaded'))).toBe(2);

    writeFileSync(currentFile(unreadable.folder), '{');
    await unreadable.count();
    expect((await service.scrape()).value(fallbacks('unreadable'))).toBe(1);

    const { log = '' } = readCurrent(damaged.folder, layoutVersion) ?? {};
    writeFileSync(join(damaged.folder, log), 'x'.repeat(20_000));
    await damaged.count();
    await service.until(fallbacks('damaged'));
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

  it.for([
    // Of two connections for lists, one organization uses one.
    ['lists', 'segments', '/v1/segments', 1, 'crm_postgres_waiting_requests{pool="lists"}'],
    ['keys', 'api_keys', '/v1/me', 2, 'crm_postgres_waiting_requests{pool="keys"}'],
    // Of the four connections for queries, one key uses three.
    ['purchases', 'purchases', '/v1/purchases/stats', 3, 'crm_queries{state="waiting"}'],
  ] as const)(
    'show busy connections to Postgres, and requests that wait for one: %s',
    async ([pool, table, url, busy, waitingRequests], { service, database }) => {
      const { pool: stores } = database;
      // No file has its purchases, so Postgres answers.
      const organizationId = await addOrganization(stores);
      const { secret } = await addKey(stores, organizationId);
      const headers = { authorization: `Bearer ${secret}` };
      const unlock = await lockTables(stores, table);
      const waiting = Array.from({ length: busy + 1 }, () =>
        service.client.send({ method: 'GET', url, headers }),
      );
      await service.until(
        ({ value }) =>
          value(`crm_postgres_connections{pool="${pool}",state="busy"}`) === busy &&
          value(waitingRequests) === 1,
      );
      await unlock();
      for (const { status } of await Promise.all(waiting)) expect(status).toBe(200);
      await service.until(
        ({ value }) =>
          value(`crm_postgres_connections{pool="${pool}",state="busy"}`) === 0 &&
          (value(`crm_postgres_connections{pool="${pool}",state="idle"}`) ?? 0) > 0,
      );
    },
  );

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

describe('a metrics address', { tags: ['slow'] }, () => {
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
      const sentence = `Port \\d+ of 127\\.0\\.0\\.1 is in use\\. Set ${variable} to another one\\.`;
      const isService = !path.endsWith('start.ts');
      const line = isService ? `\\{"level":60,.*"msg":"${sentence}"\\}` : sentence;
      expect(refused.output()).toMatch(new RegExp(`^${line}\\n$`));
    }
  });
});
