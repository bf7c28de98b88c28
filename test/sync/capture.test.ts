import { readdirSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import type pg from 'pg';
import { describe, expect } from 'vitest';
import { test } from '../support/fixtures.ts';
import { publishedPurchases } from '../support/published.ts';
import { publishedLog } from '../support/published-files.ts';
import { addCustomer, addPurchase } from '../support/shop.ts';

const it = test
  /** Adds a purchase of so many cents. */
  .extend(
    'buy',
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
    buy,
    sync,
  }) => {
    await sync();
    const older = await begin();
    await buy(1, older);
    await buy(2);
    expect(await sync()).toEqual([2n]);
    await buy(3);
    expect(await sync()).toEqual([2n, 3n]);
    await older.query('commit');
    expect(await sync()).toEqual([1n, 2n, 3n]);
    expect(await sync()).toEqual([1n, 2n, 3n]);
  });

  it('ignores rows that were rolled back, also to a savepoint', async ({ begin, buy, sync }) => {
    await sync();
    const rolledBack = await begin();
    await buy(1, rolledBack);
    const partlyRolledBack = await begin();
    await buy(2, partlyRolledBack);
    await partlyRolledBack.query('savepoint a');
    await buy(3, partlyRolledBack);
    await partlyRolledBack.query('rollback to savepoint a');
    await partlyRolledBack.query('savepoint b');
    await buy(4, partlyRolledBack);
    await partlyRolledBack.query('release savepoint b');
    expect(await sync()).toEqual([]);
    await rolledBack.query('rollback');
    await partlyRolledBack.query('commit');
    expect(await sync()).toEqual([2n, 4n]);
  });

  it('reads prepared transactions after their commit', async ({ database, begin, buy, sync }) => {
    await sync();
    const writer = await begin();
    await buy(5, writer);
    await writer.query(`prepare transaction 'later'`);
    expect(await sync()).toEqual([]);
    await database.pool.query(`commit prepared 'later'`);
    expect(await sync()).toEqual([5n]);
  });

  it('applies a change of the id and of the customer of a purchase', { tags: ['slow'] }, async ({
    database,
    directory,
    organizationId,
    buy,
    sync,
  }) => {
    const id = await buy(7);
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
    buy,
    sync,
  }) => {
    await sync();
    const log = publishedLog(folder);
    const sizes = [statSync(log).size];
    for (let count = 0; count < 8; count += 1) {
      await buy(count);
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
