import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { draftSuffix } from '../../src/process/replace-file.ts';
import {
  organizationDirectory,
  purchasesDirectory,
} from '../../src/purchase-store/format/current.ts';
import { tickPath, ticksDirectory } from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization } from '../../src/purchase-store/ticks/shard.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus, type Status } from '../../sync/status/status.ts';
import { test } from '../support/fixtures.ts';
import { runProgram } from '../support/program.ts';
import { publishedFiles } from '../support/published-files.ts';
import { createWorkerRole } from '../support/role.ts';
import { addPurchase } from '../support/shop.ts';

const it = test
  /** The role of the workers. The database has one purchase. */
  .extend('role', { scope: 'file' }, async ({ database, shop, customerId }, { onCleanup }) => {
    await addPurchase(database.pool, shop.organizationId, { customer_id: customerId });
    const role = await createWorkerRole(database);
    onCleanup(role.drop);
    return role;
  })
  /** A worker that runs during all tests that name it. Its data folder is `directory`. */
  .extend('runningWorker', { scope: 'file' }, async ({ role, directory }, { onCleanup }) => {
    const environment = { DATABASE_URL: role.url, DATA_DIR: directory };
    const worker = runProgram('sync/main.ts', ['run'], environment);
    onCleanup(async () => void (await worker.end('SIGKILL')));
    await worker.printed(/following changes/);
    return worker;
  })
  /** Runs a command of the worker. The folder comes first: it is removed after the programs end. */
  .extend('sync', ({ newDirectory, role, program }) => {
    const environment = { DATABASE_URL: role.url, DATA_DIR: newDirectory };
    return (...args: string[]) => program('sync/main.ts', args, environment);
  })
  .extend('statusUntil', ({ database, role, newDirectory }, { onCleanup }) => {
    const pool = createPool(role.url, { max: 1, applicationName: 'test' });
    onCleanup(() => pool.end());
    return async (matches: (status: Status) => boolean, directory = newDirectory) => {
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
const hasFailed = (status: Status) => workerFailure(status) !== null;
const isHealthy = ({ workers }: Status) => workers[0]?.failure === null;

describe('status of a worker', () => {
  it.for([
    [
      'may not delete from the change log',
      (role: string) => `revoke delete on purchase_changes from ${role}`,
      (role: string) => `grant delete on purchase_changes to ${role}`,
      /permission denied for table purchase_changes/,
      /grant select, insert, delete on purchase_changes to/,
    ],
    [
      'may not read the change log',
      (role: string) => `revoke select on purchase_changes from ${role}`,
      (role: string) => `grant select on purchase_changes to ${role}`,
      /permission denied for table purchase_changes/,
      /grant select, insert, delete on purchase_changes to/,
    ],
    [
      'may not update purchase_change_readers',
      (role: string) => `revoke update on purchase_change_readers from ${role}`,
      (role: string) => `grant update on purchase_change_readers to ${role}`,
      /permission denied for table purchase_change_readers/,
      /grant select, insert, update, delete on purchase_change_readers to/,
    ],
    [
      'has read-only transactions',
      (role: string) => `alter role ${role} set default_transaction_read_only = on`,
      (role: string) => `alter role ${role} reset default_transaction_read_only`,
      /read-only transaction/,
      /default_transaction_read_only to off/,
    ],
    [
      'has another search path',
      (role: string) => `alter role ${role} set search_path = nowhere`,
      (role: string) => `alter role ${role} reset search_path`,
      /does not find the table purchase_changes in the search path/,
      /search_path of the role of DATABASE_URL/,
    ],
  ] as const)(
    'reports the cause if its role %s, until the cause is removed',
    { tags: ['slow'] },
    async (
      [_what, cause, correction, message, advice],
      { database, directory, role, runningWorker: _, statusUntil },
    ) => {
      /** New connections have the new settings of the role. */
      const execute = async (statement: string) => {
        await database.pool.query(statement);
        await database.pool.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where usename = $1 and application_name = 'crm-data-service sync'`,
          [role.name],
        );
      };
      await statusUntil(isHealthy, directory);
      await execute(cause(role.name));
      const isReported = (status: Status) => message.test(workerFailure(status)?.message ?? '');
      const status = await statusUntil(isReported, directory);
      expect(workerFailure(status)?.advice).toMatch(advice);
      await execute(correction(role.name));
      await statusUntil(isHealthy, directory);
    },
  );

  it('has the failure as text and as JSON, and no failure after a restart without the cause', {
    tags: ['slow'],
  }, async ({ database, role, sync, statusUntil }) => {
    await database.pool.query(`revoke select on purchase_changes from ${role.name}`);
    const worker = sync('run');
    const failure = workerFailure(await statusUntil(hasFailed));
    const [json, text] = [sync('status', '--json'), sync('status')];
    await Promise.all([json.exited(), text.exited()]);
    expect(JSON.parse(json.stdout())).toMatchObject({
      // The command has the role of the worker, and reports what it cannot read.
      failure: { message: expect.stringMatching(/permission denied for table purchase_changes/) },
      workers: [{ failure }],
    });
    expect(text.stdout()).toContain(
      `The worker has failed since ${failure?.since}: ${failure?.message} ${failure?.advice}`,
    );
    await worker.end('SIGKILL');
    await database.pool.query(`grant select on purchase_changes to ${role.name}`);
    sync('run');
    expect((await statusUntil(isHealthy)).failure).toBeNull();
    await statusUntil(({ organizations }) => organizations[0]?.state === 'live');
  });

  it('names the path of a file that the worker cannot write', { tags: ['slow'] }, async ({
    newDirectory,
    sync,
    statusUntil,
  }) => {
    const obstacle = tickPath(newDirectory, everyOrganization) + draftSuffix;
    mkdirSync(obstacle, { recursive: true });
    sync('run');
    const namesObstacle = (status: Status) =>
      workerFailure(status)?.message.includes(obstacle) === true;
    const failure = workerFailure(await statusUntil(namesObstacle));
    expect(failure?.message).toMatch(/^DATA_DIR cannot be written to: EISDIR/);
    expect(failure?.advice).toMatch(
      /^Something else is at this path .* The worker then continues\.$/,
    );
  });

  it('has the time of the last poll if the worker can write neither ticks nor its failure', {
    tags: ['slow'],
  }, async ({ newDirectory, sync, statusUntil }) => {
    mkdirSync(purchasesDirectory(newDirectory), { recursive: true });
    const ticks = ticksDirectory(newDirectory);
    const failures = join(purchasesDirectory(newDirectory), 'workers');
    for (const path of [ticks, failures]) writeFileSync(path, 'a file instead of a folder');
    const worker = sync('run');
    await worker.printed(/DATA_DIR cannot be written to/);
    const failure = workerFailure(await statusUntil(hasFailed));
    expect(failure?.message).toMatch(
      /^The worker has not polled the change log since its start at 20/,
    );
    expect(failure?.advice).toMatch(/^Read the worker's log/);
    rmSync(failures);
    await statusUntil((status) => workerFailure(status)?.message.includes(ticks) === true);
    rmSync(ticks);
    await statusUntil(isHealthy);
  });

  it('reports a row-level security policy that may hide purchases, and nothing is published', {
    tags: ['slow'],
  }, async ({ database, newDirectory, shop, role, sync, statusUntil, onTestFinished }) => {
    await database.pool.query(`
      alter table purchases enable row level security;
      create policy even_ids on purchases using (id % 2 = 0)`);
    onTestFinished(async () => {
      await database.pool.query(`
        drop policy even_ids on purchases;
        alter table purchases disable row level security`);
    });
    sync('run');
    expect(workerFailure(await statusUntil(hasFailed))).toMatchObject({
      message: 'A row-level security policy may hide rows of the table purchases.',
      advice: expect.stringContaining('bypassrls'),
    });
    expect(publishedFiles(organizationDirectory(newDirectory, shop.organizationId))).toBeNull();
    await database.pool.query(`alter role ${role.name} bypassrls`);
    await statusUntil(({ organizations }) => organizations[0]?.purchases === 1);
  });
});
