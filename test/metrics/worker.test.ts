import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { currentFile, organizationDirectory } from '../../src/purchase-store/format/current.ts';
import { type Scrape, scraperOf } from '../support/metrics.ts';
import {
  addCustomer,
  addOrganization,
  addPurchase,
  addPurchases,
  withoutCapture,
} from '../support/shop.ts';
import { measuredTest } from './measured-worker.ts';

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
  it('show a load, the memory of the process and the polls', { tags: ['slow'] }, async ({
    service,
    untilLive,
  }) => {
    const loaded = await untilLive();
    expect(loaded.value('crm_sync_active')).toBe(1);
    const load = '{kind="load",reason="nothing was loaded yet"}';
    expect(loaded.value(`crm_sync_build_duration_seconds_count${load}`)).toBe(1);
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

  it('count ticks and their changes, and show the changes that are not compacted', async ({
    service,
    untilLive,
    database,
    shop,
    newShop,
    newCustomerId,
    customerId,
  }) => {
    const before = await untilLive();
    const of = (before: Scrape, series: string) => before.value(series) ?? 0;
    const all = 'crm_sync_uncompacted_changes{of="all"}';
    await addPurchases(database.pool, shop.organizationId, customerId, 30);
    const first = await service.until(({ value }) => value(all) === of(before, all) + 30);
    await addPurchases(database.pool, newShop.organizationId, newCustomerId, 3);
    const after = await service.until(({ value }) => value(all) === of(before, all) + 33);

    const applied = 'crm_sync_applied_rows_total';
    expect(of(after, applied)).toBe(of(before, applied) + 33);
    const ticks = 'crm_sync_tick_duration_seconds_count';
    expect(of(first, ticks)).toBe(of(before, ticks) + 1);
    expect(of(after, ticks)).toBe(of(before, ticks) + 2);
    const largest = 'crm_sync_uncompacted_changes{of="largest"}';
    expect(of(after, largest)).toBe(of(first, largest));
    const bytes = (of: string) => `crm_sync_uncompacted_bytes{of="${of}"}`;
    expect(of(after, bytes('largest'))).toBeGreaterThan(1_000);
    expect(of(after, bytes('all'))).toBeGreaterThan(of(after, bytes('largest')));
    const published = 'crm_sync_published_bytes_total';
    const added = of(after, bytes('all')) - of(before, bytes('all'));
    expect(of(after, published) - of(before, published)).toBeLessThanOrEqual(added);
    expect(of(after, published) - of(before, published)).toBeGreaterThan(added / 2);
  });

  it('show the failing organization and its lag, until its purchase is corrected', {
    tags: ['slow'],
  }, async ({ service, untilLive, database }) => {
    const organizationId = await addOrganization(database.pool);
    const values = { customer_id: await addCustomer(database.pool, organizationId) };
    await untilLive();
    const id = await addPurchase(database.pool, organizationId, {
      ...values,
      created_at: 'infinity',
    });
    const failed = await service.until(
      ({ value }) => value('crm_sync_organizations{state="failed"}') === 1,
    );
    expect(failed.value('crm_sync_failures_total{stage="changes"}')).toBeGreaterThan(0);
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
      ({ value }) => value('crm_sync_repairs_total{repair="rebuild"}') === 1,
    );
    expect(after.value(differs)).toBe(1);
    expect(after.value('crm_sync_verification_differences_total')).toBe(1);
    const last = after.value('crm_sync_last_verification_timestamp_seconds');
    expect(last).toBeGreaterThan(verifiedAt);
  });

  it('show a shard that waits, and the number of shards', { tags: ['slow'] }, async ({
    service,
    program,
  }) => {
    const scraped = await service.scrape();
    expect(scraped.value('crm_sync_active{shard="1/1"}')).toBe(1);
    expect(scraped.value('crm_sync_shards')).toBe(1);
    const shard = program('sync/main.ts', ['run', '--shard', '2/4'], {
      SYNC_METRICS_LISTEN: '127.0.0.1:0',
    });
    const { value } = await (await scraperOf(shard)).scrape();
    expect(value('crm_sync_active{shard="2/4"}')).toBe(0);
    expect(value('crm_sync_shards')).toBe(4);
    expect(await shard.end('SIGTERM')).toBe(0);
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
