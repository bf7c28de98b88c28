import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withConnection } from '../../src/postgres/pool.ts';
import {
  type PostgresOfItsOwn,
  startPostgresOfItsOwn,
} from '../support/chaos/postgres-of-its-own.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** A publisher and its subscriber, from which the worker reads. */
describe('purchases that logical replication writes', { timeout: 120_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let publisher: PostgresOfItsOwn;
  let subscriber: PostgresOfItsOwn;
  let worker: TestWorker;
  let data: string;
  let organization: bigint;
  let other: bigint;

  beforeAll(async () => {
    directory = await temporaryDirectory();
    data = join(directory.path, 'data');
    publisher = await startPostgresOfItsOwn(join(directory.path, 'publisher'), {
      wal_level: 'logical',
    });
    subscriber = await startPostgresOfItsOwn(join(directory.path, 'subscriber'));
    for (const { pool } of [publisher, subscriber]) {
      organization = await addOrganization(pool);
      other = await addOrganization(pool);
      await addCustomer(pool, organization);
      await addCustomer(pool, other);
    }
    worker = await createTestWorker(subscriber.pool, data);
    await worker.syncAll();
    await addPurchases(publisher.pool, organization, 1n, 100);
    await publisher.pool.query('create publication shop for table purchases');
    await subscriber.pool.query(
      `create subscription shop connection '${publisher.url}' publication shop`,
    );
  }, 120_000);
  afterAll(async () => {
    await worker.close();
    // Its slot at the publisher goes with the publisher.
    await subscriber.remove();
    await publisher.remove();
    await directory.remove();
  });

  /** Resolves once the subscriber has what the publisher has. */
  const untilReplicated = async () => {
    const stateOf = async ({ pool }: PostgresOfItsOwn) =>
      (await pool.query(`select md5(string_agg(p::text, ',' order by id)) from purchases as p`))
        .rows[0].md5;
    while ((await stateOf(publisher)) !== (await stateOf(subscriber))) await sleep(50);
  };
  const expectEqual = async () => {
    await untilReplicated();
    await worker.syncAll();
    for (const id of [organization, other]) {
      expect(await publishedPurchases(data, id)).toEqual(
        await storedPurchases(subscriber.pool, id),
      );
    }
  };

  it('are followed: the copy at the beginning, inserts, updates, deletes and moves', async () => {
    await expectEqual();
    expect(await publishedPurchases(data, organization)).toHaveLength(100);
    for (const statement of [
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select ${organization}, 1, n from generate_series(1, 50) as n`,
      'update purchases set purchase_value_in_cents = 7 where id % 3 = 0',
      'delete from purchases where id % 7 = 0',
      `update purchases set organization_id = ${other}, customer_id = 2 where id % 5 = 0`,
      'update purchases set id = id + 100000 where id % 11 = 0',
    ]) {
      await publisher.pool.query(statement);
      await expectEqual();
    }
    await publisher.pool.query('truncate purchases');
    await addPurchases(publisher.pool, other, 2n, 5);
    await expectEqual();
  });

  it('are logged once each, by whoever writes under either replication role', async () => {
    const count = async (role: 'origin' | 'replica', statement: string) =>
      withConnection(subscriber.pool, async (connection) => {
        await connection.query('begin');
        await connection.query(`set local session_replication_role = ${role}`);
        await connection.query(statement);
        const { rows } = await connection.query<{ count: bigint }>(
          'select count(*) from purchase_changes where transaction_id = pg_current_xact_id()',
        );
        await connection.query('rollback');
        return rows[0]?.count;
      });
    for (const role of ['origin', 'replica'] as const) {
      const values = `(organization_id, customer_id, purchase_value_in_cents)`;
      expect(
        await count(
          role,
          `insert into purchases ${values} select ${other}, 2, 1 from generate_series(1, 9)`,
        ),
      ).toBe(9n);
      expect(await count(role, 'update purchases set utm_term = utm_source')).toBe(5n);
      expect(await count(role, 'delete from purchases')).toBe(5n);
    }
  });
});
