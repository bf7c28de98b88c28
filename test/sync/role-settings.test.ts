import pg from 'pg';
import { afterEach, describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/pool.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { prepareSession } from '../../sync/commands/session.ts';
import { tryWorkerLock } from '../../sync/commands/worker-lock.ts';
import { isolatedTest as it } from '../support/fixtures.ts';
import { runProgram } from '../support/program.ts';
import { createWorkerRole, type TestRole } from '../support/role.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const bindingSettings = [
  "statement_timeout = '50ms'",
  "idle_in_transaction_session_timeout = '1ms'",
  "idle_session_timeout = '100ms'",
  "lock_timeout = '1ms'",
  'row_security = on',
];

describe("settings of the worker's role in Postgres", { timeout: 120_000 }, () => {
  let role: TestRole;
  it.beforeEach(async ({ database }) => {
    role = await createWorkerRole(database);
    for (const setting of bindingSettings) {
      await database.pool.query(`alter role ${role.name} set ${setting}`);
    }
  });
  afterEach(async () => {
    await role.drop();
  });

  /** Resolves once Postgres has ended a connection that keeps the role's settings. */
  const idleConnectionEnds = async () => {
    const client = new pg.Client({ connectionString: role.url });
    client.on('error', () => {});
    await client.connect();
    await new Promise<void>((resolve) => client.once('end', resolve));
  };

  it('do not end its statements, its transactions or its connections', async () => {
    const pool = createPool(role.url, {
      max: 1,
      applicationName: 'test',
      onConnect: prepareSession,
    });
    const connection = await pool.connect();
    try {
      await connection.query('select pg_sleep(0.2)');
      await connection.query('begin');
      await idleConnectionEnds();
      await connection.query('commit');
      await idleConnectionEnds();
      const { rows } = await connection.query(`
        select name, setting from pg_settings
        where name in ('statement_timeout', 'idle_in_transaction_session_timeout',
          'idle_session_timeout', 'transaction_timeout', 'lock_timeout', 'row_security')`);
      expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toMatchObject({
        statement_timeout: '0',
        idle_in_transaction_session_timeout: '0',
        idle_session_timeout: '0',
        lock_timeout: '5000',
        row_security: 'off',
      });
    } finally {
      connection.release();
      await pool.end();
    }
  });

  it('do not end the connection that holds its lock', async () => {
    const lock = await tryWorkerLock(role.url, 'folder-1', { number: 1, of: 1 });
    await idleConnectionEnds();
    expect(lock?.lost.aborted).toBe(false);
    await lock?.release();
  });

  it('leave a worker able to load, with `options` of its own in DATABASE_URL', async ({
    database,
  }) => {
    const organization = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, organization);
    await addPurchases(database.pool, organization, customer, 200_000);
    await database.pool.query(`alter role ${role.name} set search_path = nowhere`);
    const url = new URL(role.url);
    url.searchParams.set('options', '-c search_path=public');
    const directory = await temporaryDirectory();
    const worker = runProgram('sync/main.ts', ['run'], {
      DATABASE_URL: url.href,
      DATA_DIR: directory.path,
    });
    try {
      await worker.printed(/"built"/);
      const published = readPublished(organizationDirectory(directory.path, organization));
      expect(published?.purchases).toBe(200_000);
      expect(worker.output()).not.toMatch(/timeout|"level":50/);
      expect(await worker.end('SIGTERM')).toBe(0);
    } finally {
      if (worker.child.exitCode === null) await worker.end('SIGKILL');
      await directory.remove();
    }
  });
});
