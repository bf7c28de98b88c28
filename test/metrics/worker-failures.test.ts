import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe } from 'vitest';
import {
  currentFile,
  organizationDirectory,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { addCustomer, addOrganization, addPurchase, withoutCapture } from '../support/shop.ts';
import { measuredTest as it } from './measured-worker.ts';

const failures = (stage: string) => `crm_sync_failures_total{stage="${stage}"}`;
const inState = (state: string) => `crm_sync_organizations{state="${state}"}`;
const verifications = (result: string) => `crm_sync_verifications_total{result="${result}"}`;
const repairs = (repair: string) => `crm_sync_repairs_total{repair="${repair}"}`;

describe('the metrics of a worker that fails or repairs', () => {
  it.beforeAll(async ({ service }) => {
    await service.until(inState('live'));
  });

  it('count failures to prune the change log', { tags: ['slow'] }, async ({
    service,
    database,
  }) => {
    const { pool } = database;
    await pool.query(`
      create function fail() returns trigger language plpgsql as $$ begin raise 'no'; end $$;
      create trigger fail before insert or update on purchase_change_pruning
        execute function fail()`);
    await service.until(failures('pruning'));
    await pool.query('drop trigger fail on purchase_change_pruning');
  });

  it('count failed loads', async ({ service, database }) => {
    const { pool } = database;
    const organizationId = await addOrganization(pool);
    await addPurchase(pool, organizationId, {
      customer_id: await addCustomer(pool, organizationId),
      created_at: 'infinity',
    });
    await service.until(failures('load'));
  });

  it('count an unreadable log, and the rebuild that repairs it', { tags: ['slow'] }, async ({
    service,
    directory,
    shop,
  }) => {
    // The worker reads only the last line of its log, so the verification finds the damage.
    const folder = organizationDirectory(directory, shop.organizationId);
    const log = join(folder, readCurrent(folder, layoutVersion)?.log ?? '');
    const content = readFileSync(log);
    content.write('?', 30);
    writeFileSync(log, content);
    await service.until(verifications('unreadable'));
    await service.until(repairs('rebuild'));
  });

  it('count verifications that cannot compare, and that fail', { tags: ['slow'] }, async ({
    service,
    database,
    directory,
    shop,
  }) => {
    const current = currentFile(organizationDirectory(directory, shop.organizationId));
    const published = readFileSync(current, 'utf8');
    // As if the changes since were not captured.
    writeFileSync(current, JSON.stringify({ ...JSON.parse(published), fingerprint: '1 another' }));
    await service.until(verifications('not comparable'));
    writeFileSync(current, published);

    const locking = await database.pool.connect();
    await locking.query('begin; lock table purchases in access exclusive mode');
    await service.until(failures('verification'));
    await locking.query('rollback');
    locking.release();
  });

  it('count failed repairs', { tags: ['slow'] }, async ({ service, database, shop }) => {
    const update = (instant: string) => `
      update purchases set updated_at = '${instant}'
      where id = (select min(id) from purchases where organization_id = ${shop.organizationId})`;
    await withoutCapture(database.pool, update('infinity'));
    await service.until(repairs('failed'));
    await database.pool.query(update('2026-01-01T00:00:00Z'));
  });
});
