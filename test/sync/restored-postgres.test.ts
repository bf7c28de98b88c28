import { join } from 'node:path';
import { describe, expect } from 'vitest';
import {
  type Connection,
  type Database,
  withConnection,
} from '../../src/postgres/connection/pool.ts';
import { createTestApi } from '../support/api.ts';
import { test } from '../support/fixtures.ts';
import { startPostgresServer } from '../support/postgres-server.ts';
import { expectEqual, storedPurchases } from '../support/published.ts';
import { addACent, addCustomer, addKey, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker, syncOnce } from '../support/sync.ts';

const it = test
  .extend('postgres', { scope: 'file' }, async ({ directory }, { onCleanup }) => {
    // A crash loses the commits that were not written to the disk.
    const postgres = await startPostgresServer(directory, { wal_writer_delay: '10s' });
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
  })
  /** Publishes with a worker that lives as long as the test. */
  .extend('publish', async ({ pool, data, seller: { organization } }, { onCleanup }) => {
    const worker = await createTestWorker(pool, data);
    onCleanup(worker.close);
    return async () => {
      await worker.once([organization]);
      await expectEqual(pool, data, organization);
    };
  })
  .extend(
    'buy',
    ({ pool, seller: { organization, customer } }) =>
      (connection: Database | Connection = pool) => {
        return addPurchases(connection, organization, customer, 1);
      },
  );

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

describe('after a crash of Postgres', { tags: ['slow'] }, () => {
  it('the worker publishes transactions that have the ids of lost, rolled-back transactions', async ({
    postgres,
    pool,
    publish,
    buy,
  }) => {
    await buy();
    for (let count = 0; count < 20; count += 1) {
      await pool.query('begin; select pg_current_xact_id(); rollback');
    }
    await publish();
    await postgres.crash();
    await buy();
    await buy();
    await publish();
  });

  it('Postgres has every published purchase, also those committed with synchronous_commit off', async ({
    postgres,
    pool,
    seller: { organization },
    publish,
    buy,
  }) => {
    const stored = () => storedPurchases(pool, organization);
    await publish();
    await withConnection(pool, async (connection) => {
      await connection.query('set synchronous_commit = off');
      for (let count = 0; count < 3; count += 1) await buy(connection);
      await connection.query('reset synchronous_commit');
    });
    await publish();
    const published = await stored();
    await postgres.crash();
    expect(await stored()).toEqual(published);
    await buy();
    await publish();
  });
});

describe('a restored cold copy of Postgres', { tags: ['slow'] }, () => {
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

describe('a promoted standby', { tags: ['slow'] }, () => {
  it.for([
    ['that lost transactions', 3],
    ['that lost nothing', 0],
  ] as const)(
    '%s is read by a running API until the worker has rebuilt the files, and instants never go back',
    async ([_, lost], { postgres, pool, directory }) => {
      const data = join(directory, `promoted-${lost}`);
      const organization = await addOrganization(pool, 'Promoted');
      const customer = await addCustomer(pool, organization);
      await addPurchases(pool, organization, customer, 20);
      const { secret } = await addKey(pool, organization);
      await syncOnce(pool, data);
      const makeStandby = await postgres.coldCopy();
      await addPurchases(pool, organization, customer, lost);
      await syncOnce(pool, data);
      const api = await createTestApi(pool, data);
      let shownAsOf = '';
      const get = async (path: string) => {
        const response = await api.get(`/v1/purchases/${path}`, secret);
        const asOf = String(response.headers['x-data-as-of'] ?? shownAsOf);
        expect(asOf >= shownAsOf).toBe(true);
        shownAsOf = asOf;
        return response;
      };
      const count = async () => {
        const exported = await get('export?format=ndjson');
        expect(exported.statusCode).toBe(200);
        const { purchase_count } = (await get('stats')).json();
        expect(exported.body.trim().split('\n')).toHaveLength(purchase_count);
        return purchase_count;
      };
      try {
        expect(await count()).toBe(20 + lost);
        const cursor = (await get('changes')).json().next_cursor;
        await makeStandby('standby');
        // The pool's connections to the standby survive its promotion.
        expect(await count()).toBe(20 + lost);
        await pool.query('select pg_promote()');
        expect(await count()).toBe(20);
        expect((await get('changes')).statusCode).toBe(409);
        await addPurchases(pool, organization, customer, 1);
        expect(await count()).toBe(21);
        await syncOnce(pool, data);
        await addPurchases(pool, organization, customer, 1);
        // The files do not show the last purchase yet.
        expect((await get('stats')).json().purchase_count).toBe(21);
        expect((await get('changes')).statusCode).toBe(200);
        if (lost > 0) expect((await get(`changes?cursor=${cursor}`)).statusCode).toBe(409);
        await syncOnce(pool, data);
        expect(await count()).toBe(22);
      } finally {
        await api.close();
      }
    },
  );
});
