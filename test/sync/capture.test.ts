import { readdirSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { publishedPurchases } from '../support/published.ts';
import { publishedLog } from '../support/published-files.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';

const it = test
  /** Adds a purchase of so many cents. */
  .extend(
    'add',
    ({ database, organizationId, newCustomerId }) =>
      (cents: number, connection: pg.Pool | pg.PoolClient = database.pool) =>
        addPurchase(connection, organizationId, {
          customer_id: newCustomerId,
          purchase_value_in_cents: cents,
        }),
  )
  /** Publishes what is committed, and returns the values of the published purchases. */
  .extend('sync', ({ worker, directory, organizationId }) => async (id = organizationId) => {
    await worker.once([id]);
    return publishedValues(directory, id);
  })
  /** Opens a connection with a transaction. */
  .extend('begin', ({ database }, { onCleanup }) => {
    const connections: pg.PoolClient[] = [];
    onCleanup(() => {
      for (const connection of connections) connection.release(true);
    });
    return async () => {
      const connection = await database.pool.connect();
      connections.push(connection);
      await connection.query('begin');
      return connection;
    };
  });

// The first call of `sync` loads the organization. Later calls apply changes.
describe('the sync worker', () => {
  it('publishes commits while an older transaction is open', { tags: ['slow'] }, async ({
    begin,
    add,
    sync,
  }) => {
    await sync();
    const older = await begin();
    await add(1, older);
    await add(2);
    expect(await sync()).toEqual([2n]);
    await add(3);
    expect(await sync()).toEqual([2n, 3n]);
    await older.query('commit');
    expect(await sync()).toEqual([1n, 2n, 3n]);
    expect(await sync()).toEqual([1n, 2n, 3n]);
  });

  it('ignores rows that were rolled back, also to a savepoint', async ({ begin, add, sync }) => {
    await sync();
    const rolledBack = await begin();
    await add(1, rolledBack);
    const partlyRolledBack = await begin();
    await add(2, partlyRolledBack);
    await partlyRolledBack.query('savepoint a');
    await add(3, partlyRolledBack);
    await partlyRolledBack.query('rollback to savepoint a');
    await partlyRolledBack.query('savepoint b');
    await add(4, partlyRolledBack);
    await partlyRolledBack.query('release savepoint b');
    expect(await sync()).toEqual([]);
    await rolledBack.query('rollback');
    await partlyRolledBack.query('commit');
    expect(await sync()).toEqual([2n, 4n]);
  });

  it('reads each transaction once, whatever the order of commits', { tags: ['slow'] }, async ({
    begin,
    add,
    sync,
  }) => {
    await sync();
    const writers = await Promise.all([begin(), begin(), begin(), begin()]);
    for (const [index, writer] of writers.entries()) await add(10 + index, writer);
    for (const index of [2, 0, 3, 1]) {
      await writers[index]?.query('commit');
      await sync();
    }
    expect(await sync()).toEqual([10n, 11n, 12n, 13n]);
  });

  it('reads prepared transactions after their commit', async ({ database, begin, add, sync }) => {
    await sync();
    const writer = await begin();
    await add(5, writer);
    await writer.query(`prepare transaction 'later'`);
    expect(await sync()).toEqual([]);
    await database.pool.query(`commit prepared 'later'`);
    expect(await sync()).toEqual([5n]);
  });

  it('applies updates, deletes and several changes of one row', async ({ begin, add, sync }) => {
    const kept = await add(1);
    const removed = await add(2);
    expect(await sync()).toEqual([1n, 2n]);
    const writer = await begin();
    await writer.query('update purchases set purchase_value_in_cents = 10 where id = $1', [kept]);
    await writer.query('update purchases set purchase_value_in_cents = 11 where id = $1', [kept]);
    await writer.query('delete from purchases where id = $1', [removed]);
    const insertedAndDeleted = await add(3, writer);
    await writer.query('delete from purchases where id = $1', [insertedAndDeleted]);
    await writer.query('commit');
    expect(await sync()).toEqual([11n]);
  });

  it('applies a change of the id and of the customer of a purchase', { tags: ['slow'] }, async ({
    database,
    directory,
    organizationId,
    add,
    sync,
  }) => {
    const id = await add(7);
    await sync();
    const otherCustomer = await addCustomer(database.pool, organizationId);
    await database.pool.query(
      'update purchases set id = id + 9000, customer_id = $1 where id = $2',
      [otherCustomer, id],
    );
    await sync();
    expect(await publishedPurchases(directory, organizationId)).toMatchObject([
      { id: id + 9000n, customer_id: otherCustomer },
    ]);
  });

  it('removes the purchases of a deleted customer', async ({
    database,
    newCustomerId,
    add,
    sync,
  }) => {
    await add(1);
    expect(await sync()).toEqual([1n]);
    await database.pool.query('delete from customers where id = $1', [newCustomerId]);
    expect(await sync()).toEqual([]);
  });

  it('loads the organization again if the change log was pruned beyond its watermark', {
    tags: ['slow'],
  }, async ({ database, folder, add, sync }) => {
    await add(1);
    await sync();
    const before = publishedLog(folder);
    await add(2);
    await database.pool.query('delete from purchase_changes');
    await database.pool.query(
      `insert into purchase_change_pruning values (pg_current_xact_id())
       on conflict (is_singleton) do update set pruned_below = excluded.pruned_below`,
    );
    // Every open transaction has seen entries that are pruned. Other tests share this server.
    const isVisibleToAll = async () => {
      const { rowCount } = await database.pool.query(
        `select from purchase_change_pruning
         where pruned_below > pg_snapshot_xmin(pg_current_snapshot())`,
      );
      return rowCount === 0;
    };
    while (!(await isVisibleToAll())) await sleep(20);
    expect(await sync()).toEqual([1n, 2n]);
    expect(publishedLog(folder)).not.toBe(before);
  });

  it('renews its entry in purchase_change_readers without changes', async ({ database, sync }) => {
    await sync();
    await database.pool.query(
      `update purchase_change_readers set seen_at = now() - interval '25 hours'`,
    );
    await sync();
    const { rowCount } = await database.pool.query(
      `select from purchase_change_readers
       where name like '% 1/1' and seen_at > now() - interval '1 hour'`,
    );
    expect(rowCount).toBe(1);
  });

  it('appends the changes to one log, and nothing if nothing changed', { tags: ['slow'] }, async ({
    folder,
    add,
    sync,
  }) => {
    await sync();
    const log = publishedLog(folder);
    const sizes = [statSync(log).size];
    for (let count = 0; count < 8; count += 1) {
      await add(count);
      await sync();
      sizes.push(statSync(log).size);
    }
    expect(sizes).toEqual([...new Set(sizes)].sort((a, b) => a - b));
    await sync();
    expect(statSync(log).size).toBe(sizes.at(-1));
    expect(readdirSync(folder).sort()).toEqual(['CURRENT', basename(log)]);
  });
});

/** The values of the published purchases as a new reader sees them, sorted. */
async function publishedValues(directory: string, organizationId: bigint): Promise<bigint[]> {
  const purchases = await publishedPurchases(directory, organizationId);
  return purchases.map(({ purchase_value_in_cents: cents }) => cents).sort((a, b) => Number(a - b));
}
