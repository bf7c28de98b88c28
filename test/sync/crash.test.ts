import { describe, expect } from 'vitest';
import { withConnection } from '../../src/postgres/pool.ts';
import { test } from '../support/fixtures.ts';
import { startPostgresServer } from '../support/postgres-server.ts';
import { publishedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchase } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const file = { scope: 'file' } as const;

const it = test
  /** A crash loses the commits that were not written to the disk, which happens every 10 s. */
  .extend('postgres', file, async ({ directory }, { onCleanup }) => {
    const postgres = await startPostgresServer(directory, { wal_writer_delay: '10s' });
    onCleanup(postgres.remove);
    return postgres;
  })
  .extend('crashWorker', file, async ({ postgres, directory }, { onCleanup }) => {
    const worker = await createTestWorker(postgres.pool, directory);
    onCleanup(worker.close);
    return worker;
  })
  .extend('organizationId', ({ postgres }) => addOrganization(postgres.pool))
  .extend('customer', ({ postgres, organizationId }) => addCustomer(postgres.pool, organizationId))
  .extend(
    'add',
    ({ postgres, organizationId, customer }) =>
      (cents: number, connection: Parameters<typeof addPurchase>[0] = postgres.pool) =>
        addPurchase(connection, organizationId, {
          customer_id: customer,
          purchase_value_in_cents: cents,
        }),
  )
  /** Publishes what is committed, and returns the values of the published purchases. */
  .extend('sync', ({ crashWorker, directory, organizationId }) => async () => {
    await crashWorker.once([organizationId]);
    const purchases = await publishedPurchases(directory, organizationId);
    return purchases.map(({ purchase_value_in_cents: cents }) => Number(cents)).sort();
  });

describe('after a crash of Postgres', { timeout: 120_000 }, () => {
  it('the worker publishes transactions that have the ids of lost, rolled-back transactions', {
    tags: ['slow'],
  }, async ({ postgres, add, sync }) => {
    await sync();
    await add(1);
    await withConnection(postgres.pool, async (connection) => {
      for (let count = 0; count < 20; count += 1) {
        await connection.query('begin; select pg_current_xact_id(); rollback');
      }
    });
    expect(await sync()).toEqual([1]);
    await postgres.crash();
    await add(2);
    await add(3);
    expect(await sync()).toEqual([1, 2, 3]);
  });

  it('Postgres has every published purchase, also those committed with synchronous_commit off', {
    tags: ['slow'],
  }, async ({ postgres, organizationId, add, sync }) => {
    await sync();
    await add(1);
    await withConnection(postgres.pool, async (connection) => {
      await connection.query('set synchronous_commit = off');
      for (const cents of [2, 3, 4]) await add(cents, connection);
      await connection.query('reset synchronous_commit');
    });
    expect(await sync()).toEqual([1, 2, 3, 4]);
    await postgres.crash();
    const { rowCount } = await postgres.pool.query(
      'select from purchases where organization_id = $1',
      [organizationId],
    );
    expect(rowCount).toBe(4);
    await add(9);
    expect(await sync()).toEqual([1, 2, 3, 4, 9]);
  });
});
