import { randomUUID } from 'node:crypto';
import { cpSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { findCredential, secretHash } from '../../src/postgres/api-keys.ts';
import { captureSql } from '../../src/postgres/capture.ts';
import { type Database, withConnection } from '../../src/postgres/pool.ts';
import { createTestApi } from '../support/api.ts';
import { isolatedTest, test } from '../support/fixtures.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startPostgresServer } from '../support/postgres-server.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const addACent = 'update purchases set purchase_value_in_cents = purchase_value_in_cents + 1';

/** Publishes what Postgres holds, by a worker that ends then. */
async function syncOnce(database: Database, directory: string) {
  const worker = await createTestWorker(database, directory);
  await worker.syncAll().finally(() => worker.close());
}

const expectEqual = async (database: Database, directory: string, organization: bigint) =>
  expect(await publishedPurchases(directory, organization)).toEqual(
    await storedPurchases(database, organization),
  );

/** Resolves when the published purchases are those of Postgres. */
async function untilEqual(database: Database, directory: string, organization: bigint) {
  for (;;) {
    const published = await publishedPurchases(directory, organization);
    const stored = await storedPurchases(database, organization);
    if (`${published.map(Object.values)}` === `${stored.map(Object.values)}`) return;
    await sleep(50);
  }
}

const restoredTest = isolatedTest
  /** An organization with 50 purchases. */
  .extend('organization', async ({ database, shop, customerId }) => {
    await addPurchases(database.pool, shop.organizationId, customerId, 50);
    return shop.organizationId;
  })
  /** Runs `worker` until the end of the test. */
  .extend('startWorker', ({ worker }, { onCleanup }) => () => {
    const stop = new AbortController();
    const running = worker.run(stop.signal);
    onCleanup(async () => {
      stop.abort();
      await running;
    });
  });

const tables = [
  'purchases',
  'purchase_changes',
  'purchase_change_pruning',
  'purchase_change_readers',
];
/** As pg_dump: the content of the tables in one snapshot. */
const dumpStatements = `begin isolation level repeatable read; create schema dump;
  ${tables.map((table) => `create table dump.${table} (like ${table} including all); insert into dump.${table} select * from ${table};`).join('\n')}
  commit`;
/** As `pg_restore --clean --if-exists`: drops and creates the tables, then the triggers. */
const restoreStatements = [
  ...tables.flatMap((table) => [
    `drop table if exists ${table}`,
    `create table ${table} (like dump.${table} including all)`,
    `insert into ${table} select * from dump.${table}`,
  ]),
  captureSql,
];

describe('a restored dump', () => {
  const it = restoredTest;

  it.for([false, true])(
    'causes a rebuild by a running worker and by one that starts later (--single-transaction: %s)',
    async (isSingle, { database: { pool }, directory, organization, worker, startWorker }) => {
      const later = join(directory, 'later');
      await worker.once([organization]);
      startWorker();
      await pool.query(dumpStatements);
      await pool.query(addACent);
      await syncOnce(pool, later);
      await untilEqual(pool, directory, organization);
      await withConnection(pool, async (connection) => {
        if (isSingle) await connection.query('begin');
        for (const statement of restoreStatements) await connection.query(statement);
        if (isSingle) await connection.query('commit');
      });
      await syncOnce(pool, later);
      await expectEqual(pool, later, organization);
      await untilEqual(pool, directory, organization);
      await pool.query(`${addACent} where id % 7 = 0`);
      await syncOnce(pool, later);
      await expectEqual(pool, later, organization);
      await untilEqual(pool, directory, organization);
    },
  );

  it('may have log entries with later transaction ids, which the worker removes', async ({
    database: { pool },
    directory,
    organization,
  }) => {
    await syncOnce(pool, directory);
    const later = '900000000000';
    await pool.query('insert into purchase_changes values ($1, 1, $2)', [organization, later]);
    await pool.query('insert into purchase_change_readers values ($1, $2, $3)', [
      randomUUID(),
      organization,
      later,
    ]);
    await pool.query(
      `insert into purchase_change_pruning values ($1, $2)
       on conflict (organization_id) do update set pruned_below = excluded.pruned_below`,
      [organization, later],
    );
    await syncOnce(pool, directory);
    const { rows } = await pool.query(
      `select (select count(*) from purchase_changes where transaction_id > '800000000000') +
         (select count(*) from purchase_change_readers where retain_from > '800000000000') +
         (select count(*) from purchase_change_pruning where pruned_below > '800000000000') as left`,
    );
    expect(rows[0].left).toBe(0n);
    await expectEqual(pool, directory, organization);
  });
});

describe('a restored data folder', () => {
  const it = restoredTest;

  it('is brought up to date, also if it is restored twice', async ({
    database: { pool },
    directory,
    organization,
  }) => {
    const data = join(directory, 'data');
    const copy = join(directory, 'copy');
    const restore = () => {
      rmSync(data, { recursive: true });
      cpSync(copy, data, { recursive: true });
    };
    await syncOnce(pool, data);
    cpSync(data, copy, { recursive: true });
    await pool.query(`${addACent} where id % 3 = 0`);
    await syncOnce(pool, data);
    restore();
    await pool.query(`${addACent} where id % 5 = 0`);
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
    restore();
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
  });
});

const coldCopyTest = test
  .extend('postgres', { scope: 'file' }, async ({ directory }, { onCleanup }) => {
    const postgres = await startPostgresServer(directory);
    onCleanup(postgres.remove);
    return postgres;
  })
  .extend('pool', { scope: 'file' }, ({ postgres }) => postgres.pool)
  .extend('data', { scope: 'file' }, ({ directory }) => join(directory, 'data'))
  /** An organization with 50 purchases in this Postgres. */
  .extend('seller', { scope: 'file' }, async ({ pool }) => {
    const organization = await addOrganization(pool);
    const customer = await addCustomer(pool, organization);
    await addPurchases(pool, organization, customer, 50);
    return { organization, customer };
  });

const nextTransaction = async (pool: Database) => {
  const { rows } = await pool.query<{ next: bigint }>(
    'select pg_current_xact_id()::text::bigint as next',
  );
  return rows[0]?.next as bigint;
};
/** Assigns all lost transaction ids again, to other changes. */
const assignLostIds = async (pool: Database, before: bigint) => {
  for (let left = before - (await nextTransaction(pool)) + 50n; left > 0n; left -= 1n) {
    await pool.query(`${addACent} where id = 1 + $1 % 5`, [left]);
  }
};

describe('a restored cold copy of Postgres', { timeout: 120_000 }, () => {
  const it = coldCopyTest;

  it('causes a rebuild if all lost transaction ids were assigned again', async ({
    postgres,
    pool,
    data,
    seller: { organization },
  }) => {
    await syncOnce(pool, data);
    const restore = await postgres.coldCopy();
    await pool.query(`${addACent} where id > 20`);
    await syncOnce(pool, data);
    const before = await nextTransaction(pool);
    await restore();
    await assignLostIds(pool, before);
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
  });

  it('causes a rebuild if only changes that a worker has read were lost', async ({
    postgres,
    pool,
    data,
    seller: { organization },
  }) => {
    await syncOnce(pool, data);
    await pool.query(`${addACent} where id > 30`);
    const restore = await postgres.coldCopy();
    await pool.query(`${addACent} where id > 20`);
    await syncOnce(pool, data);
    await restore();
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
  });

  it('restarts an interrupted load', async ({
    postgres,
    pool,
    directory,
    seller: { organization, customer },
  }) => {
    const data = join(directory, 'interrupted');
    const restore = await postgres.coldCopy();
    await addPurchases(pool, organization, customer, 5_000);
    const stop = new AbortController();
    let loaded = 0;
    const worker = await createTestWorker(pool, data, {
      loadChunkRows: 100,
      onReport: (_organization, { progress }) => {
        loaded = progress?.loaded ?? 0;
        if (loaded > 1_000) stop.abort();
      },
    });
    await worker.run(stop.signal);
    await worker.close();
    expect(loaded).toBeGreaterThan(1_000);
    const before = await nextTransaction(pool);
    await restore();
    await assignLostIds(pool, before);
    await syncOnce(pool, data);
    await expectEqual(pool, data, organization);
  });

  it('shows no key the purchases of another company that had the same id', async ({
    postgres,
    pool,
    data,
  }) => {
    const restore = await postgres.coldCopy();
    const company = await addOrganization(pool, 'Lost');
    await addPurchases(pool, company, await addCustomer(pool, company), 20);
    await syncOnce(pool, data);
    const api = await createTestApi(pool, data);
    try {
      const count = async (secret: string) =>
        (await api.get('/v1/purchases/stats', secret)).json().purchase_count;
      expect(await count((await addKey(pool, company)).secret)).toBe(20);
      await restore();
      expect(await addOrganization(pool, 'New')).toBe(company);
      const { secret } = await addKey(pool, company);
      expect(await count(secret)).toBe(0);
      await addPurchases(pool, company, await addCustomer(pool, company), 3);
      expect(await count(secret)).toBe(3);
      await syncOnce(pool, data);
      expect(await count(secret)).toBe(3);
    } finally {
      await api.close();
    }
  });
});

describe('another database', () => {
  const it = restoredTest;

  it('with the same organization does not use its published files', async ({
    database,
    directory,
    organization,
    engine,
  }) => {
    await syncOnce(database.pool, directory);
    const other = await createTestDatabase();
    const { rows } = await database.pool.query('select id, identity, name from organizations');
    const { id, identity, name } = rows[0];
    await other.pool.query('insert into organizations (id, identity, name) values ($1, $2, $3)', [
      id,
      identity,
      name,
    ]);
    const sourceOf = async (pool: Database): Promise<string> => {
      const { secret } = await addKey(pool, organization);
      return (await findCredential(pool, secretHash(secret) as Buffer))?.source ?? '';
    };
    const [own, foreign] = [await sourceOf(database.pool), await sourceOf(other.pool)];
    expect(foreign).not.toBe(own);
    expect(await engine.forSource(foreign).freshness(organization)).toBeNull();
    expect(await engine.forSource(own).freshness(organization)).not.toBeNull();
    await other.drop();
  });

  it('of the same name is read by a running API, which shows nothing of the former', async ({
    database,
    directory,
    organization: former,
    startApi,
  }) => {
    await syncOnce(database.pool, directory);
    const api = await startApi();
    const stats = async (secret: string) => {
      const response = await api.get('/v1/purchases/stats', secret);
      return [response.statusCode, response.json().purchase_count];
    };
    const { secret: formerSecret } = await addKey(database.pool, former);
    expect(await stats(formerSecret)).toEqual([200, 50]);

    database.pool.on('error', () => {});
    await database.recreate();
    const organization = await addOrganization(database.pool, 'New');
    expect(organization).toBe(former);
    const { secret } = await addKey(database.pool, organization);
    expect(await stats(secret)).toEqual([200, 0]);
    expect((await stats(formerSecret))[0]).toBe(401);

    const customer = await addCustomer(database.pool, organization);
    await addPurchases(database.pool, organization, customer, 3);
    await syncOnce(database.pool, directory);
    const inPostgres = (await api.purchases.freshness(organization)) as bigint;
    expect(await stats(secret)).toEqual([200, 3]);
    // The file lacks this purchase: the response is no longer from Postgres.
    await addPurchases(database.pool, organization, customer, 1);
    await api.purchases.waitUntilFresh(organization, inPostgres, AbortSignal.timeout(30_000));
    expect(await stats(secret)).toEqual([200, 3]);
  });
});
