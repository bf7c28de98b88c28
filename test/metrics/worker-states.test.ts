import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { requestFromWorker } from '../../sync/worker/rebuild-requests.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { scraperOf } from '../support/metrics.ts';
import { addPurchases } from '../support/shop.ts';

const inState = (state: string) => `crm_sync_organizations{state="${state}"}`;
const builds = (kind: string, reason: string) =>
  `crm_sync_build_duration_seconds_count{kind="${kind}",reason="${reason}"}`;

const it = isolatedTest
  /** Starts a worker that builds one organization at a time. */
  .extend(
    'startWorker',
    async ({ program }) =>
      async (environment: Record<string, string> = {}) => {
        const worker = program('sync/main.ts', ['run'], {
          SYNC_CONCURRENCY: '1',
          SYNC_METRICS_LISTEN: '127.0.0.1:0',
          ...environment,
        });
        return { end: worker.end, ...(await scraperOf(worker)) };
      },
  );

describe('the metrics of a worker', () => {
  it('show each state of the organizations', { tags: ['slow'] }, async ({
    database,
    directory,
    shop,
    customerId,
    otherShop: _loadedFirst,
    startWorker,
  }) => {
    const { pool } = database;
    const { organizationId } = shop;
    // More than a log holds without a base. The other organization is loaded first.
    await addPurchases(pool, organizationId, customerId, 6_000);
    // Each token that the worker commits takes a second, and each build commits tokens.
    await pool.query(`
      create function wait_a_second() returns trigger language plpgsql
        as $$ begin perform pg_sleep(1); return new; end $$;
      create trigger wait_a_second before insert on purchase_changes
        for each row when (new.token is not null) execute function wait_a_second()`);
    const first = await startWorker();
    await first.until(
      ({ value }) => value(inState('loading')) === 1 && value(inState('waiting to load')) === 1,
    );
    const chunk = join(organizationDirectory(directory, organizationId), 'load-a.tsv');
    await expect.poll(() => existsSync(chunk)).toBe(true);
    await first.end('SIGKILL');
    const { until } = await startWorker();
    await until(({ value }) => value(inState('live')) === 2);

    const request = { organizationId, differsFromPostgres: false };
    const { signal } = new AbortController();
    const rebuilt = requestFromWorker(directory, request, async () => true, signal);
    await until(({ value }) => value(inState('rebuilding')) === 1);
    expect(await rebuilt).toEqual({ failure: null });
    await until(({ value }) => value(builds('load', 'a rebuild was requested')) === 1);

    await addPurchases(pool, organizationId, customerId, 21_000);
    await until(({ value }) => value(inState('compacting')) === 1);
    await until(({ value }) => value(builds('compact', 'the log is large')) === 1);

    // More than a tick publishes.
    await addPurchases(pool, organizationId, customerId, 51_000);
    await until(({ value }) => value(inState('catching up')) === 1);
    await until(({ value }) => value(builds('catch up', 'many changes at once')) === 1);
    await until(({ value }) => value(inState('live')) === 2);
  });

  it('show the memory and the temporary files of a load that exceeds the memory of DuckDB', {
    tags: ['slow'],
  }, async ({ database, shop, customerId, startWorker }) => {
    await addPurchases(database.pool, shop.organizationId, customerId, 200_000);
    const { until } = await startWorker({ DUCKDB_MEMORY_LIMIT: '64MiB' });
    await until('crm_duckdb_bytes{storage="memory"}');
    await until('crm_duckdb_bytes{storage="disk"}');
  });
});
