import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findCredential, secretHash } from '../../src/postgres/api-keys.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { createTestDuckDBEngine } from '../support/engines.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import {
  addCustomer,
  addKey,
  addOrganization,
  addPurchase,
  addPurchases,
} from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe('the sync worker, when something goes wrong,', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: Awaited<ReturnType<typeof createTestWorker>>;
  let organization: bigint;
  let customer: bigint;

  beforeEach(async () => {
    database = await createTestDatabase();
    database.pool.on('error', () => {});
    directory = await temporaryDirectory();
    worker = await createTestWorker(database.pool, directory.path);
    organization = await addOrganization(database.pool);
    customer = await addCustomer(database.pool, organization);
  });
  afterEach(async () => {
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  const identityOf = async ({ pool }: TestDatabase) =>
    (await pool.query('select identity from organizations where id = $1', [organization])).rows[0]
      .identity;
  const sourceOf = async ({ pool }: TestDatabase): Promise<string> => {
    const { secret } = await addKey(pool, organization);
    return (await findCredential(pool, secretHash(secret) as Buffer))?.source ?? '';
  };
  const addMany = (count: number) => addPurchases(database.pool, organization, customer, count);
  const published = async () => {
    const engine = await createTestDuckDBEngine(directory.path);
    try {
      const query = { filters: {}, groupLimit: 1 };
      return Number((await engine.stats(organization, query)).result.purchaseCount);
    } finally {
      await engine.close();
    }
  };
  /** Ends every other connection that is reading purchases, as a restart would. */
  const cutStreams = async (): Promise<number> => {
    const { rowCount } = await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()
         and xact_start is not null and query ilike '%copy (%'`,
    );
    return rowCount ?? 0;
  };

  it('fails rather than hangs where the connection is lost in a load, and then starts over', async () => {
    await addMany(200_000);
    const load = worker.syncAll().then(
      () => 'loaded',
      () => 'failed',
    );
    while ((await cutStreams()) === 0) await sleep(5);
    expect(await load).toBe('failed');
    await worker.syncAll();
    expect(await published()).toBe(200_000);
  });

  it('stops in the middle of a load when it is told to, and starts over', async () => {
    await addMany(200_000);
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    while (!existsSync(organizationDirectory(directory.path, organization))) await sleep(5);
    stop.abort();
    await running;
    await worker.close();
    worker = await createTestWorker(database.pool, directory.path);
    await worker.syncAll();
    expect(await published()).toBe(200_000);
  });

  it('takes no purchase for deleted while the table is being rewritten', async () => {
    await addMany(1_000);
    await worker.syncAll();
    await database.pool.query('update purchases set utm_source = $1 where id % 100 = 0', ['a']);
    const migration = await database.pool.connect();
    await migration.query('begin');
    await migration.query('alter table purchases alter column utm_term type varchar(5000)');
    await migration.query('alter table purchases add column extra text default clock_timestamp()');
    const pass = worker.syncAll();
    // By now the pass waits for the lock, with or without a snapshot in hand.
    while ((await waitingForLocks()) === 0) await sleep(5);
    await migration.query('commit');
    migration.release();
    await pass;
    expect(await published()).toBe(1_000);
  });

  async function waitingForLocks(): Promise<number> {
    const { rows } = await database.pool.query<{ count: bigint }>(
      `select count(*) from pg_locks join pg_stat_activity using (pid)
       where not granted and datname = current_database()`,
    );
    return Number(rows[0]?.count);
  }

  it('forgets what a dump brought along from a server that was further on', async () => {
    await addMany(3);
    await worker.syncAll();
    await database.pool.query(`insert into purchase_changes values ($1, 1, '900000000000')`, [
      organization,
    ]);
    await database.pool.query(
      `insert into purchase_change_readers values ($1, $2, '900000000000')`,
      [randomUUID(), organization],
    );
    await database.pool.query(
      `insert into purchase_change_pruning values ($1, '900000000000')
       on conflict (organization_id) do update set pruned_below = excluded.pruned_below`,
      [organization],
    );
    await worker.syncAll();
    const { rows } = await database.pool.query(
      `select (select count(*) from purchase_changes where transaction_id > '800000000000') +
         (select count(*) from purchase_change_readers where retain_from > '800000000000') +
         (select count(*) from purchase_change_pruning where pruned_below > '800000000000') as left`,
    );
    expect(rows[0].left).toBe(0n);
    expect(await published()).toBe(3);
  });

  it('keeps neither log entries nor files of an organization that is gone', async () => {
    await addMany(50);
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    const folder = organizationDirectory(directory.path, organization);
    while (!existsSync(folder)) await sleep(10);
    await database.pool.query('delete from organizations where id = $1', [organization]);
    const entries = async () =>
      Number((await database.pool.query('select count(*) from purchase_changes')).rows[0].count);
    while (existsSync(folder) || (await entries()) > 0) await sleep(20);
    stop.abort();
    await running;
  });

  it('keeps no folder of an organization that went while it was loaded for the first time', async () => {
    const gone = await addOrganization(database.pool);
    await database.pool.query('delete from organizations where id = $1', [gone]);
    const folder = organizationDirectory(directory.path, gone);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'next.duckdb'), '');
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    while (existsSync(folder)) await sleep(20);
    stop.abort();
    await running;
  });

  it('goes on where the folder of an organization could not be made at first', async () => {
    await addMany(3);
    const folder = organizationDirectory(directory.path, organization);
    mkdirSync(dirname(folder), { recursive: true });
    writeFileSync(folder, 'in the way');
    await expect(worker.syncAll()).rejects.toThrow(/EEXIST|ENOTDIR/);
    rmSync(folder);
    await worker.syncAll();
    expect(await published()).toBe(3);
  });

  it('serves nothing of another database that was read into the same folder', async () => {
    await addMany(7);
    await worker.syncAll();
    const other = await createTestDatabase();
    const engine = await createTestDuckDBEngine(directory.path);
    await other.pool.query(
      `insert into organizations (id, name, identity)
       select $1, name, $2 from (values ('Copy')) as copied (name)`,
      [organization, await identityOf(database)],
    );
    const [own, foreign] = [await sourceOf(database), await sourceOf(other)];
    expect(foreign).not.toBe(own);
    expect(await engine.forSource(foreign).freshness(organization)).toBeNull();
    expect(await engine.forSource(own).freshness(organization)).not.toBeNull();
    await engine.close();
    await other.drop();
    expect(await published()).toBe(7);
  });

  it('follows changes again after Postgres has cut every connection', async () => {
    await addMany(5);
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    const engine = await createTestDuckDBEngine(directory.path);
    const count = async () =>
      (await engine.freshness(organization)) === null
        ? 0
        : Number(
            (await engine.stats(organization, { filters: {}, groupLimit: 1 })).result.purchaseCount,
          );
    while ((await count()) !== 5) await sleep(20);
    await database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where datname = current_database() and pid <> pg_backend_pid()`,
    );
    await addPurchase(database.pool, organization, { customer_id: customer });
    while ((await count()) !== 6) await sleep(20);
    await engine.close();
    stop.abort();
    await running;
  });
});
