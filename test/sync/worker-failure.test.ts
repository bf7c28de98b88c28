import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { createPool } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  purchasesDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus, type Status } from '../../sync/status/status.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { createWorkerRole } from '../support/role.ts';
import { addPurchase } from '../support/shop.ts';

const it = isolatedTest
  .extend('role', async ({ database }, { onCleanup }) => {
    const role = await createWorkerRole(database);
    onCleanup(role.drop);
    return role;
  })
  /** Runs a command of the worker in that role, with one purchase in the database. */
  .extend('sync', async ({ database, shop, customerId, role, program }) => {
    await addPurchase(database.pool, shop.organizationId, { customer_id: customerId });
    return (...args: string[]) => program('sync/main.ts', args, { DATABASE_URL: role.url });
  })
  .extend('statusUntil', async ({ database, directory, role }, { onCleanup }) => {
    const pool = createPool(role.url, { max: 1, applicationName: 'test' });
    onCleanup(() => pool.end());
    return async (matches: (status: Status) => boolean): Promise<Status> => {
      for (;;) {
        const organizations = await listOrganizations(database.pool);
        const folderId = await dataFolderId(directory);
        const status = await readStatus(pool, directory, folderId, organizations);
        if (matches(status)) return status;
        await sleep(100);
      }
    };
  });

const workerFailure = ({ workers }: Status) => workers[0]?.failure ?? null;

describe('status of a worker that fails as a whole', { timeout: 180_000 }, () => {
  it.for([
    [
      'lacks a right on the change log',
      (name: string) => `revoke delete on purchase_changes from ${name}`,
      /permission denied for table purchase_changes/,
      /grant select, insert, delete on purchase_changes to/,
    ],
    [
      'cannot read the change log',
      (name: string) => `revoke select on purchase_changes from ${name}`,
      /permission denied for table purchase_changes/,
      /grant select, insert, delete on purchase_changes to/,
    ],
    [
      'may not write',
      (name: string) => `alter role ${name} set default_transaction_read_only = on`,
      /read-only transaction/,
      /default_transaction_read_only to off/,
    ],
    [
      'has another search path',
      (name: string) => `alter role ${name} set search_path = nowhere`,
      /does not find the table purchase_changes in the search path/,
      /search_path of the role of DATABASE_URL/,
    ],
    [
      'lacks a right to prune',
      (name: string) => `revoke update on purchase_change_readers from ${name}`,
      /permission denied for table purchase_change_readers/,
      /grant select, insert, update, delete on purchase_change_readers to/,
    ],
  ] as const)(
    'names the cause where its role %s',
    async ([_what, statement, message, advice], { database, role, sync, statusUntil }) => {
      await database.pool.query(statement(role.name));
      sync('run');
      const failure = workerFailure(await statusUntil((status) => workerFailure(status) !== null));
      expect(failure?.message).toMatch(message);
      expect(failure?.advice).toMatch(advice);
    },
  );

  it('shows no failure once the right is granted', async ({
    database,
    role,
    sync,
    statusUntil,
  }) => {
    await database.pool.query(`revoke select on purchase_changes from ${role.name}`);
    sync('run');
    const failed = await statusUntil((status) => workerFailure(status) !== null);
    const failure = workerFailure(failed);
    const [json, text] = [sync('status', '--json'), sync('status')];
    await Promise.all([json.exited(), text.exited()]);
    expect(JSON.parse(json.answer())).toMatchObject({
      // The command has the worker's role, and says what it cannot read.
      failure: { message: expect.stringMatching(/permission denied for table purchase_changes/) },
      workers: [{ failure }],
    });
    expect(text.answer()).toContain(
      `The worker has failed since ${failure?.since}: ${failure?.message} ${failure?.advice}`,
    );
    await database.pool.query(`grant select on purchase_changes to ${role.name}`);
    const status = await statusUntil((status) => workerFailure(status) === null);
    expect(status.failure).toBeNull();
    await statusUntil(({ organizations }) => organizations[0]?.state === 'live');
  });

  it('shows no failure of a worker before it', async ({ database, role, sync, statusUntil }) => {
    await database.pool.query(`revoke select on purchase_changes from ${role.name}`);
    const first = sync('run');
    await statusUntil((status) => workerFailure(status) !== null);
    await first.end('SIGKILL');
    await database.pool.query(`grant select on purchase_changes to ${role.name}`);
    sync('run');
    await statusUntil(({ workers }) => workers[0]?.failure === null);
  });

  it.for(['up-to-date', 'STATUS'])(
    'names the file where it cannot write %s',
    async (name, { directory, shop, sync, statusUntil }) => {
      const obstacle =
        name === 'STATUS'
          ? join(organizationDirectory(directory, shop.organizationId), 'STATUS')
          : join(purchasesDirectory(directory), name, '1-of-1.json');
      mkdirSync(obstacle, { recursive: true });
      sync('run');
      const failure = workerFailure(await statusUntil((status) => workerFailure(status) !== null));
      expect(failure?.message).toMatch(/^DATA_DIR cannot be written to: EISDIR/);
      expect(failure?.message).toContain(obstacle);
      if (name === 'STATUS') return;
      rmdirSync(obstacle);
      await statusUntil((status) => workerFailure(status) === null);
    },
  );

  it('says since when it has not looked where it can write nothing that tells of its looks', async ({
    directory,
    sync,
    statusUntil,
  }) => {
    mkdirSync(purchasesDirectory(directory), { recursive: true });
    const obstacles = ['up-to-date', 'worker-failures'].map((name) =>
      join(purchasesDirectory(directory), name),
    );
    for (const obstacle of obstacles) writeFileSync(obstacle, 'in the way');
    const worker = sync('run');
    await worker.printed(/DATA_DIR cannot be written to/);
    const silent = await statusUntil((status) => workerFailure(status) !== null);
    expect(workerFailure(silent)?.message).toMatch(
      /^The worker has not polled the change log since its start at 20/,
    );
    expect(workerFailure(silent)?.advice).toMatch(/^Read the worker's log/);
    for (const obstacle of obstacles) rmSync(obstacle);
    await statusUntil((status) => workerFailure(status) === null);
  });

  it('fails visibly where a row-level security policy would hide purchases', async ({
    database,
    directory,
    shop,
    role,
    sync,
    statusUntil,
  }) => {
    await database.pool.query('alter table purchases enable row level security');
    await database.pool.query('create policy even_ids on purchases using (id % 2 = 0)');
    sync('run');
    const status = await statusUntil(({ organizations }) => organizations[0]?.failure != null);
    expect(status.organizations[0]?.failure).toMatchObject({
      message: 'A row-level security policy may hide rows of the table purchases.',
      advice: expect.stringContaining('bypassrls'),
    });
    expect(readPublished(organizationDirectory(directory, shop.organizationId))).toBeNull();
    await database.pool.query(`alter role ${role.name} bypassrls`);
    await statusUntil(({ organizations }) => organizations[0]?.purchases === 1);
  });
});
