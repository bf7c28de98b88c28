import pg from 'pg';
import { describe, expect } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import { organizationDirectory, readCurrent } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { tryWorkerLock, workerSettings } from '../../sync/lock/worker-lock.ts';
import { test } from '../support/fixtures.ts';
import { createWorkerRole } from '../support/role.ts';
import { addPurchases } from '../support/shop.ts';

const settings = [
  "statement_timeout = '50ms'",
  "idle_in_transaction_session_timeout = '1ms'",
  "idle_session_timeout = '100ms'",
  "lock_timeout = '1ms'",
  'row_security = on',
];

const it = test
  .extend('role', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const role = await createWorkerRole(database);
    onCleanup(role.drop);
    for (const setting of settings) {
      await database.pool.query(`alter role ${role.name} set ${setting}`);
    }
    return role;
  })
  /** Resolves when Postgres ends an idle connection that has the settings of the role. */
  .extend('idleConnectionEnds', ({ role }) => async () => {
    const client = new pg.Client({ connectionString: role.url });
    client.on('error', () => {});
    await client.connect();
    await new Promise<void>((resolve) => client.once('end', resolve));
  });

describe("the timeouts of the worker's role", () => {
  it('end no statement, transaction or connection of the worker', async ({
    role,
    idleConnectionEnds,
  }) => {
    const pool = createPool(role.url, {
      max: 1,
      applicationName: 'test',
      settings: workerSettings,
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

  it('do not end the connection that holds the lock of the worker', async ({
    role,
    idleConnectionEnds,
  }) => {
    const lock = await tryWorkerLock(role.url, 'folder-1', { number: 1, of: 1 });
    await idleConnectionEnds();
    expect(lock?.lost.aborted).toBe(false);
    await lock?.release();
  });

  it('do not end the worker, which uses the search path of DATABASE_URL', {
    tags: ['slow'],
  }, async ({ database, directory, shop, customerId, role, program }) => {
    const purchases = 60_000;
    await addPurchases(database.pool, shop.organizationId, customerId, purchases);
    await database.pool.query(`alter role ${role.name} set search_path = nowhere`);
    const url = new URL(role.url);
    url.searchParams.set('options', '-c search_path=public');
    const worker = program('sync/main.ts', ['run'], { DATABASE_URL: url.href });
    await worker.printed(/"built"/);
    const folder = organizationDirectory(directory, shop.organizationId);
    expect(readCurrent(folder, layoutVersion)?.purchases).toBe(purchases);
    expect(worker.output()).not.toMatch(/timeout|"level":50/);
    expect(await worker.end('SIGTERM')).toBe(0);
  });
});
