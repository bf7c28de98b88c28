import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  publishedBase,
} from '../../src/purchase-store/published-generation.ts';
import { sendWorkerRequest } from '../../src/purchase-store/worker-requests.ts';
import { scraperOf } from '../support/metrics.ts';
import {
  addACent,
  addCustomer,
  addOrganization,
  addPurchase,
  addPurchases,
} from '../support/shop.ts';
import { measuredTest, withoutCapture } from './measured-worker.ts';

const it = measuredTest
  /** Resolves when the purchases of all organizations are published. */
  .extend('untilLive', ({ service, database }) => async () => {
    const { rows } = await database.pool.query('select count(*)::int as count from organizations');
    return service.until(
      ({ value }) =>
        value('crm_sync_organizations{state="live"}') === rows[0].count &&
        value('crm_sync_pending_organizations') === 0,
    );
  });

describe('the metrics of the worker', () => {
  it('show a load, the published generation and the polls', { tags: ['slow'] }, async ({
    service,
    untilLive,
  }) => {
    const loaded = await untilLive();
    expect(loaded.value('crm_sync_active')).toBe(1);
    const load = '{kind="load",reason="nothing was loaded yet"}';
    expect(loaded.value(`crm_sync_build_duration_seconds_count${load}`)).toBe(1);
    expect(loaded.value('crm_sync_publish_duration_seconds_count')).toBeGreaterThan(0);
    const bytes = loaded.value('crm_sync_delta_bytes{of="largest"}') ?? 0;
    expect(bytes).toBeGreaterThan(0);
    expect(loaded.value('crm_sync_published_bytes_total')).toBeGreaterThanOrEqual(bytes);
    expect(loaded.value('crm_duckdb_bytes{storage="memory"}')).toBeGreaterThan(0);
    expect(loaded.value('process_resident_memory_bytes')).toBeGreaterThan(10_000_000);

    const polls = loaded.value('crm_sync_poll_duration_seconds_count') ?? 0;
    const polledAt = loaded.value('crm_sync_last_poll_timestamp_seconds') ?? 0;
    await service.until(
      ({ value }) =>
        (value('crm_sync_poll_duration_seconds_count') ?? 0) > polls &&
        (value('crm_sync_last_poll_timestamp_seconds') ?? 0) > polledAt &&
        (value('nodejs_eventloop_lag_p99_seconds') ?? 0) > 0,
    );
  });

  it('count applied rows, and show the size of the delta', async ({
    service,
    untilLive,
    database,
    shop,
    customerId,
  }) => {
    const before = await untilLive();
    await addPurchases(database.pool, shop.organizationId, customerId, 30);
    const rows = before.value('crm_sync_delta_rows{of="all"}') ?? 0;
    const after = await service.until(
      ({ value }) => value('crm_sync_delta_rows{of="all"}') === rows + 30,
    );
    const applied = before.value('crm_sync_applied_rows_total') ?? 0;
    expect(after.value('crm_sync_applied_rows_total')).toBe(applied + 30);
    expect(after.value('crm_sync_delta_rows{of="largest"}')).toBe(rows + 30);
  });

  it('show the failing organization and its lag, until its purchase is corrected', {
    tags: ['slow'],
  }, async ({ service, database }) => {
    const organizationId = await addOrganization(database.pool);
    const values = { customer_id: await addCustomer(database.pool, organizationId) };
    const both = await service.until(
      ({ value }) => value('crm_sync_organizations{state="live"}') === 2,
    );
    const largest = both.value('crm_sync_delta_bytes{of="largest"}') ?? 0;
    expect(both.value('crm_sync_delta_bytes{of="all"}')).toBeGreaterThan(largest);
    const id = await addPurchase(database.pool, organizationId, {
      ...values,
      created_at: 'infinity',
    });
    const failed = await service.until(
      ({ value }) => value('crm_sync_organizations{state="failed"}') === 1,
    );
    expect(failed.value('crm_sync_failures_total{stage="run"}')).toBeGreaterThan(0);
    expect(failed.value('crm_sync_pending_organizations')).toBe(1);
    // The lag grows, although polls and the other organization succeed.
    await service.until(({ value }) => (value('crm_sync_lag_seconds') ?? 0) > 2);
    await database.pool.query(`update purchases set created_at = now() where id = ${id}`);
    await service.until(
      ({ value }) =>
        value('crm_sync_organizations{state="failed"}') === 0 &&
        (value('crm_sync_lag_seconds') ?? 9) < 2,
    );
  });

  // Verification pauses for 19 times as long as each part took.
  it('count a verification, the difference that it finds and the repair', {
    tags: ['slow'],
    timeout: 180_000,
  }, async ({ service, database, shop }) => {
    const differs = 'crm_sync_verifications_total{result="differs"}';
    const before = await service.until('crm_sync_verifications_total{result="equal"}');
    expect(before.value(differs)).toBe(0);
    const verifiedAt = before.value('crm_sync_last_verification_timestamp_seconds') ?? 0;
    expect(verifiedAt).toBeGreaterThan(1_000_000_000);
    await withoutCapture(
      database.pool,
      `update purchases set purchase_value_in_cents = 7
       where id = (select min(id) from purchases where organization_id = ${shop.organizationId})`,
    );
    const after = await service.until(
      ({ value }) => value('crm_sync_repairs_total{repair="reread"}') === 1,
    );
    expect(after.value(differs)).toBe(1);
    expect(after.value('crm_sync_verification_differences_total')).toBe(1);
    const last = after.value('crm_sync_last_verification_timestamp_seconds');
    expect(last).toBeGreaterThan(verifiedAt);
  });

  it('count failed polls', async ({ service, database }) => {
    await service.until('crm_sync_failures_total{stage="poll"}', () =>
      database.pool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and application_name = 'crm-data-service sync'`,
      ),
    );
  });

  it.for([
    ['the table purchases was replaced or rewritten', 'truncate purchases'],
    [
      'the triggers that capture changes were changed',
      `alter table purchases disable trigger log_updated_purchases;
       alter table purchases enable trigger log_updated_purchases`,
    ],
    [
      'the change log does not reach back far enough',
      // Beyond this transaction: a poll that runs meanwhile does not see the row, and has its id as xmin.
      `insert into purchase_change_pruning (organization_id, pruned_below)
       select id, (pg_current_xact_id()::text::bigint + 1)::text::xid8 from organizations
       on conflict (organization_id) do update set pruned_below = excluded.pruned_below`,
    ],
    [
      'Postgres, its change log or the data folder was restored',
      'delete from purchase_changes where token is not null',
    ],
    [
      'this is another database, or another organization has this id',
      `update organizations set identity = gen_random_uuid(); ${addACent}`,
    ],
    ['the published file is damaged', null],
  ] as const)(
    'count rebuilds by reason: %s',
    async ([reason, cause], { service, untilLive, database, directory, shop, customerId }) => {
      const { organizationId } = shop;
      const rebuilds = `crm_sync_build_duration_seconds_count{kind="load",reason="${reason}"}`;
      await addPurchases(database.pool, organizationId, customerId, 10);
      await untilLive();
      const base = publishedBase(organizationDirectory(directory, organizationId)) ?? '';
      if (cause === null) sendWorkerRequest(directory, 'damaged', organizationId, base);
      else await database.pool.query(cause);
      await service.until(rebuilds);
    },
  );

  it('count compactions', { tags: ['slow'] }, async ({ service, database, shop, customerId }) => {
    const compactions =
      'crm_sync_build_duration_seconds_count{kind="compact",reason="the delta is large"}';
    await addPurchases(database.pool, shop.organizationId, customerId, 21_000);
    await service.until(({ value }) => value(compactions) === 1);
  });

  it('show a standby without the state of the organizations', { tags: ['slow'] }, async ({
    service,
    program,
    directory,
    shop,
  }) => {
    expect((await service.scrape()).value('crm_sync_active')).toBe(1);
    const folder = organizationDirectory(directory, shop.organizationId);
    while (!existsSync(currentFile(folder))) await sleep(20);
    const standby = program('sync/main.ts', ['run'], { SYNC_METRICS_LISTEN: '127.0.0.1:0' });
    const scraper = await scraperOf(standby);
    await standby.printed(/this worker is a standby/);
    const { text, value } = await scraper.scrape();
    expect(value('crm_sync_active')).toBe(0);
    expect(value('crm_sync_lag_seconds')).toBeUndefined();
    expect(text).not.toMatch(/^crm_sync_organizations\{/m);
    expect(await standby.end('SIGTERM')).toBe(0);
  });
});
