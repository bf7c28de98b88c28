import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { captureSql } from '../../src/postgres/capture.ts';
import { type Database, withConnection } from '../../src/postgres/pool.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

const addACent = 'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1';

const expectEqual = async (database: Database, directory: string, organization: bigint) =>
  expect(await publishedPurchases(directory, organization)).toEqual(
    await storedPurchases(database, organization),
  );

/** Resolves once what is published is what Postgres holds; a test's timeout ends it otherwise. */
async function untilEqual(database: Database, directory: string, organization: bigint) {
  for (;;) {
    const published = await publishedPurchases(directory, organization);
    const stored = await storedPurchases(database, organization);
    if (`${published.map(Object.values)}` === `${stored.map(Object.values)}`) return;
    await sleep(50);
  }
}

describe('a restore of a dump into the same database', () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let worker: TestWorker;
  let organization: bigint;

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    worker = await createTestWorker(database.pool, directory.path);
    organization = await addOrganization(database.pool);
    const customer = await addCustomer(database.pool, organization);
    await addPurchases(database.pool, organization, customer, 50);
    await worker.syncAll();
  });
  afterEach(async () => {
    await worker.close();
    await database.drop();
    await directory.remove();
  });

  const tables = [
    'purchases',
    'purchase_changes',
    'purchase_change_pruning',
    'purchase_change_readers',
  ];
  /** As `pg_dump`: what the tables hold in one snapshot. */
  const dump = () =>
    database.pool.query(
      `begin isolation level repeatable read; create schema dump;
       ${tables.map((table) => `create table dump.${table} (like ${table} including all); insert into dump.${table} select * from ${table};`).join('\n')}
       commit`,
    );
  /** As `pg_restore --clean --if-exists`: tables are dropped and created, triggers come last. */
  const restoreStatements = [
    ...tables.flatMap((table) => [
      `drop table if exists ${table}`,
      `create table ${table} (like dump.${table} including all)`,
      `insert into ${table} select * from dump.${table}`,
    ]),
    captureSql,
  ];

  it.each([false, true])(
    'is followed by a worker that was away (in one transaction: %s)',
    async (isSingle) => {
      await dump();
      await database.pool.query(addACent);
      await worker.syncAll();
      await withConnection(database.pool, async (connection) => {
        if (isSingle) await connection.query('begin');
        for (const statement of restoreStatements) await connection.query(statement);
        if (isSingle) await connection.query('commit');
      });
      await worker.syncAll();
      await expectEqual(database.pool, directory.path, organization);
      await database.pool.query(`${addACent} where id % 7 = 0`);
      await worker.syncAll();
      await expectEqual(database.pool, directory.path, organization);
    },
  );

  it.each([false, true])(
    'is followed by a running worker (in one transaction: %s)',
    async (isSingle) => {
      const stop = new AbortController();
      const running = worker.run(stop.signal);
      try {
        await dump();
        await database.pool.query(addACent);
        await untilEqual(database.pool, directory.path, organization);
        await withConnection(database.pool, async (connection) => {
          if (isSingle) await connection.query('begin');
          for (const statement of restoreStatements) await connection.query(statement);
          if (isSingle) await connection.query('commit');
        });
        await untilEqual(database.pool, directory.path, organization);
        await database.pool.query(`${addACent} where id % 7 = 0`);
        await untilEqual(database.pool, directory.path, organization);
      } finally {
        stop.abort();
        await running;
      }
    },
  );

  it('of the data folder alone is followed as well', async () => {
    const copy = await temporaryDirectory();
    const restoreFolder = async () => {
      await worker.close();
      rmSync(directory.path, { recursive: true });
      cpSync(join(copy.path, 'data'), directory.path, { recursive: true });
      worker = await createTestWorker(database.pool, directory.path);
    };
    await worker.close();
    cpSync(directory.path, join(copy.path, 'data'), { recursive: true });
    await restoreFolder();
    await database.pool.query(`${addACent} where id % 3 = 0`);
    await worker.syncAll();
    await restoreFolder();
    await database.pool.query(`${addACent} where id % 5 = 0`);
    await worker.syncAll();
    await expectEqual(database.pool, directory.path, organization);
    await copy.remove();
  });
});

describe('a cold copy of Postgres that is restored', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let data: string;
  let postgres: PostgresServer;
  let pool: Database;
  let organization: bigint;
  let customer: bigint;

  beforeAll(async () => {
    directory = await temporaryDirectory();
    data = join(directory.path, 'data');
    postgres = await startPostgresServer(directory.path);
    pool = postgres.pool;
    organization = await addOrganization(pool);
    customer = await addCustomer(pool, organization);
    await addPurchases(pool, organization, customer, 50);
  }, 120_000);
  afterAll(async () => {
    await postgres.remove();
    await directory.remove();
  });

  const syncOnce = async (options = {}) => {
    const worker = await createTestWorker(pool, data, options);
    try {
      await worker.syncAll();
    } finally {
      await worker.close();
    }
  };
  /** Uses up more transaction numbers than were lost, with other changes than those. */
  const overtake = async (before: bigint) => {
    const { rows } = await pool.query<{ next: bigint }>(
      'select pg_current_xact_id()::text::bigint as next',
    );
    for (let left = before - (rows[0]?.next ?? 0n) + 50n; left > 0n; left -= 1n) {
      await pool.query(`${addACent} where id = 1 + $1 % 5`, [left]);
    }
  };
  const nextTransaction = async () =>
    (await pool.query<{ next: bigint }>('select pg_current_xact_id()::text::bigint as next'))
      .rows[0]?.next as bigint;

  it('causes a rebuild, though more transactions have happened since than were lost', async () => {
    await syncOnce();
    const restore = await postgres.coldCopy();
    await pool.query(`${addACent} where id > 20`);
    await syncOnce();
    const before = await nextTransaction();
    await restore();
    await overtake(before);
    await syncOnce();
    await expectEqual(pool, data, organization);
  }, 120_000);

  it('causes a rebuild where only what a worker read of it was lost', async () => {
    await syncOnce();
    await pool.query(`${addACent} where id > 30`);
    const restore = await postgres.coldCopy();
    await pool.query(`${addACent} where id > 20`);
    await syncOnce();
    await restore();
    await syncOnce();
    await expectEqual(pool, data, organization);
  }, 120_000);

  it('is no position for a load that was broken off before', async () => {
    const restore = await postgres.coldCopy();
    await addPurchases(pool, organization, customer, 5_000);
    const stop = new AbortController();
    let loaded = 0;
    const worker = await createTestWorker(pool, join(directory.path, 'broken off'), {
      loadChunkRows: 100,
      onReport: (_organization, { progress }) => {
        loaded = progress?.loaded ?? 0;
        if (loaded > 1_000) stop.abort();
      },
    });
    await worker.run(stop.signal);
    await worker.close();
    expect(loaded).toBeGreaterThan(1_000);
    const before = await nextTransaction();
    await restore();
    await overtake(before);
    const again = await createTestWorker(pool, join(directory.path, 'broken off'));
    await again.syncAll();
    await again.close();
    await expectEqual(pool, join(directory.path, 'broken off'), organization);
  }, 120_000);

  it('shows no key the purchases of another company that had the same id', async () => {
    const restore = await postgres.coldCopy();
    const company = await addOrganization(pool, 'Lost');
    await addPurchases(pool, company, await addCustomer(pool, company), 20);
    await syncOnce();
    const api: TestApi = await createTestApi(pool, data);
    try {
      const ask = async (secret: string) =>
        (await api.get('/v1/purchases/stats', secret)).json().purchase_count;
      expect(await ask((await addKey(pool, company)).secret)).toBe(20);
      await restore();
      expect(await addOrganization(pool, 'New')).toBe(company);
      const { secret } = await addKey(pool, company);
      expect(await ask(secret)).toBe(0);
      await addPurchases(pool, company, await addCustomer(pool, company), 3);
      expect(await ask(secret)).toBe(3);
      await syncOnce();
      expect(await ask(secret)).toBe(3);
    } finally {
      await api.close();
    }
  }, 120_000);
});

describe('a database that is dropped and created again under a running API', () => {
  it('is answered from without a restart, and nobody sees what the former one held', async () => {
    const database = await createTestDatabase();
    const directory = await temporaryDirectory();
    const former = await addOrganization(database.pool, 'Former');
    await addPurchases(database.pool, former, await addCustomer(database.pool, former), 20);
    const worker = await createTestWorker(database.pool, directory.path);
    await worker.syncAll();
    await worker.close();
    const api = await createTestApi(database.pool, directory.path);
    try {
      const ask = async (secret: string) => {
        const response = await api.get('/v1/purchases/stats', secret);
        return [response.statusCode, response.json().purchase_count];
      };
      const { secret: formerSecret } = await addKey(database.pool, former);
      expect(await ask(formerSecret)).toEqual([200, 20]);

      database.pool.on('error', () => {});
      await database.recreate();
      const organization = await addOrganization(database.pool, 'New');
      expect(organization).toBe(former);
      const { secret } = await addKey(database.pool, organization);
      expect(await ask(secret)).toEqual([200, 0]);
      expect((await ask(formerSecret))[0]).toBe(401);

      const customer = await addCustomer(database.pool, organization);
      await addPurchases(database.pool, organization, customer, 3);
      const next = await createTestWorker(database.pool, directory.path);
      await next.syncAll();
      await next.close();
      const inPostgres = (await api.purchases.freshness(organization)) as bigint;
      expect(await ask(secret)).toEqual([200, 3]);
      // From the file, which has stood still since, and not from Postgres.
      await addPurchases(database.pool, organization, customer, 1);
      await api.purchases.waitUntilFresh(organization, inPostgres, AbortSignal.timeout(30_000));
      expect(await ask(secret)).toEqual([200, 3]);
    } finally {
      await api.close();
      await database.drop();
      await directory.remove();
    }
  });
});
