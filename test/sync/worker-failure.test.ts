import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { listOrganizations } from '../../src/postgres/organizations.ts';
import { createPool, type Database } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  purchasesDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { dataFolderId } from '../../sync/files/data-folder.ts';
import { readStatus, type Status } from '../../sync/status/status.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type Program, runProgram } from '../support/program.ts';
import { createWorkerRole, type TestRole } from '../support/role.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('status of a worker that fails as a whole', { timeout: 180_000 }, () => {
  let database: TestDatabase;
  let role: TestRole;
  let asRole: Database;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let organization: bigint;
  const programs: Program[] = [];

  beforeEach(async () => {
    database = await createTestDatabase();
    role = await createWorkerRole(database);
    asRole = createPool(role.url, { max: 1, applicationName: 'test' });
    directory = await temporaryDirectory();
    organization = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, organization);
    await addPurchase(database.pool, organization, { customer_id: customer });
  });
  afterEach(async () => {
    for (const program of programs.splice(0)) await program.end('SIGKILL');
    await asRole.end();
    await role.drop();
    await database.drop();
    await directory.remove();
  });

  const sync = (...args: string[]): Program => {
    const program = runProgram('sync/main.ts', args, {
      DATABASE_URL: role.url,
      DATA_DIR: directory.path,
    });
    programs.push(program);
    return program;
  };
  const statusUntil = async (matches: (status: Status) => boolean): Promise<Status> => {
    // To ask a program again and again would take most of the processors' time.
    while (!matches(await readStatusHere())) await sleep(100);
    for (;;) {
      const program = sync('status', '--json');
      await program.exited();
      const status = JSON.parse(program.answer()) as Status;
      if (matches(status)) return status;
    }
  };
  const readStatusHere = async () =>
    readStatus(
      asRole,
      directory.path,
      await dataFolderId(directory.path),
      await listOrganizations(database.pool),
    );
  const statusText = async (): Promise<string> => {
    const program = sync('status');
    await program.exited();
    return program.answer();
  };
  const workerFailure = ({ workers }: Status) => workers[0]?.failure ?? null;
  const isPublished = () =>
    readPublished(organizationDirectory(directory.path, organization)) !== null;

  it.each([
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
  ])('names the cause where its role %s', async (_what, statement, message, advice) => {
    await database.pool.query(statement(role.name));
    sync('run');
    const failure = workerFailure(await statusUntil((status) => workerFailure(status) !== null));
    expect(failure?.message).toMatch(message);
    expect(failure?.advice).toMatch(advice);
    expect(await statusText()).toContain(
      `The worker has failed since ${failure?.since}: ${failure?.message} ${failure?.advice}`,
    );
  });

  it('shows no failure once the right is granted', async () => {
    await database.pool.query(`revoke select on purchase_changes from ${role.name}`);
    sync('run');
    const failed = await statusUntil((status) => workerFailure(status) !== null);
    // The command has the worker's role, and says what it cannot read.
    expect(failed.failure?.message).toMatch(/permission denied for table purchase_changes/);
    await database.pool.query(`grant select on purchase_changes to ${role.name}`);
    const status = await statusUntil((status) => workerFailure(status) === null);
    expect(status.failure).toBeNull();
    await statusUntil(({ organizations }) => organizations[0]?.state === 'live');
  });

  it('shows no failure of a worker before it', async () => {
    await database.pool.query(`revoke select on purchase_changes from ${role.name}`);
    const first = sync('run');
    await statusUntil((status) => workerFailure(status) !== null);
    await first.end('SIGKILL');
    await database.pool.query(`grant select on purchase_changes to ${role.name}`);
    sync('run');
    await statusUntil(({ workers }) => workers[0]?.failure === null);
  });

  it.each(['up-to-date', 'STATUS'])('names the file where it cannot write %s', async (name) => {
    const obstacle =
      name === 'STATUS'
        ? join(organizationDirectory(directory.path, organization), 'STATUS')
        : join(purchasesDirectory(directory.path), name, '1-of-1.json');
    mkdirSync(obstacle, { recursive: true });
    sync('run');
    const failure = workerFailure(await statusUntil((status) => workerFailure(status) !== null));
    expect(failure?.message).toMatch(/^DATA_DIR cannot be written to: EISDIR/);
    expect(failure?.message).toContain(obstacle);
    if (name === 'STATUS') return;
    rmdirSync(obstacle);
    await statusUntil((status) => workerFailure(status) === null);
  });

  it('says since when it has not looked where it can write nothing that tells of its looks', async () => {
    mkdirSync(purchasesDirectory(directory.path), { recursive: true });
    const obstacles = ['up-to-date', 'worker-failures'].map((name) =>
      join(purchasesDirectory(directory.path), name),
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

  it('fails visibly where a row-level security policy would hide purchases', async () => {
    await database.pool.query('alter table purchases enable row level security');
    await database.pool.query('create policy even_ids on purchases using (id % 2 = 0)');
    sync('run');
    const status = await statusUntil(({ organizations }) => organizations[0]?.failure != null);
    expect(status.organizations[0]?.failure).toMatchObject({
      message: 'A row-level security policy may hide rows of the table purchases.',
      advice: expect.stringContaining('bypassrls'),
    });
    expect(isPublished()).toBe(false);
    await database.pool.query(`alter role ${role.name} bypassrls`);
    await statusUntil(({ organizations }) => organizations[0]?.purchases === 1);
  });
});
