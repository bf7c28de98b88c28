import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { withConnection } from '../../src/postgres/pool.ts';
import { sqlOf } from '../support/markdown.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addMembers, addRow } from '../support/rows.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker, type TestWorker } from '../support/sync.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

/** A publisher and its subscriber, from which the worker reads. */
describe('purchases that logical replication writes', { timeout: 120_000 }, () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let publisher: PostgresServer;
  let subscriber: PostgresServer;
  let worker: TestWorker;
  let data: string;
  let organization: bigint;
  let other: bigint;

  beforeAll(async () => {
    directory = await temporaryDirectory();
    data = join(directory.path, 'data');
    publisher = await startPostgresServer(join(directory.path, 'publisher'), {
      wal_level: 'logical',
    });
    subscriber = await startPostgresServer(join(directory.path, 'subscriber'), {
      // A copy that fails is repeated as soon as this.
      wal_retrieve_retry_interval: '200ms',
    });
    worker = await createTestWorker(subscriber.pool, data);
    organization = await addOrganization(publisher.pool, 'My shop');
    other = await addOrganization(publisher.pool);
    const customer = await addCustomer(publisher.pool, organization);
    await addCustomer(publisher.pool, other);
    const tag = await addRow(publisher.pool, 'tags', { organization_id: organization });
    await addMembers(publisher.pool, 'tag', organization, tag, [customer]);
    await addPurchases(publisher.pool, organization, customer, 100);
    const [publication, subscription] = await blocks('The same tables');
    await publisher.pool.query(publication as string);
    await subscriber.pool.query(subscription as string);
  }, 120_000);
  afterAll(async () => {
    await worker.close();
    // Its slot at the publisher goes with the publisher.
    await subscriber.remove();
    await publisher.remove();
    await directory.remove();
  });

  const blocks = async (heading: string): Promise<string[]> =>
    (await sqlOf('docs/your-data.md', heading)).map((sql) =>
      sql.replace('host=publisher dbname=shop', publisher.url),
    );
  /** Resolves once the subscriber has what the publisher has. */
  const untilReplicated = async (...tables: string[]) => {
    for (const table of tables) {
      const stateOf = async ({ pool }: PostgresServer) =>
        (await pool.query(`select string_agg(t::text, ',' order by t::text) from ${table} as t`))
          .rows[0].string_agg;
      while ((await stateOf(publisher)) !== (await stateOf(subscriber))) await sleep(50);
    }
  };
  const expectEqual = async () => {
    await untilReplicated('organizations', 'customers', 'customer_tags', 'purchases');
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

  it('are followed where triggers map other tables', async () => {
    const [tables, publication, subscription, mapping] = await blocks('Tables with other columns');
    for (const { pool } of [publisher, subscriber]) await pool.query(tables as string);
    const change = (statement: string) => publisher.pool.query(statement);
    const [ana, bia] = [randomUUID(), randomUUID()];
    await change(`insert into clients values ('${ana}', 'Ana', 'ana@example.com')`);
    const order = (client: string, total: number, state: string) =>
      change(`insert into orders
        values (gen_random_uuid(), '${client}', ${total}, '${state}', '2026-03-01T12:00Z')`);
    await order(ana, 12.34, 'open');
    await change(publication as string);
    await subscriber.pool.query('truncate purchases, customers cascade');
    await subscriber.pool.query(
      `select setval('customers_id_seq', 1000), setval('purchases_id_seq', 1000)`,
    );
    await subscriber.pool.query(subscription as string);
    const areCopied = `select from pg_subscription_rel
      where srrelid in ('clients'::regclass, 'orders'::regclass) and srsubstate = 'r'`;
    while ((await subscriber.pool.query(areCopied)).rowCount !== 2) await sleep(50);
    await subscriber.pool.query(mapping as string);

    await change(`insert into clients values ('${bia}', 'Bia', null)`);
    await order(bia, 5, 'open');
    await order(bia, 6, 'gone');
    await change(`update orders set state = 'done' where total = 5`);
    await change(`update clients set full_name = 'Ana Souza' where id = '${ana}'`);
    const mapped = async () => {
      await untilReplicated('clients', 'orders');
      await worker.syncAll();
      expect(await publishedPurchases(data, organization)).toEqual(
        await storedPurchases(subscriber.pool, organization),
      );
      const { rows } = await subscriber.pool.query(
        `select name, email, purchase_value_in_cents as value, payment_status as status
         from purchases join customers on customers.id = customer_id order by value`,
      );
      return rows;
    };
    expect(await mapped()).toEqual([
      { name: 'Bia', email: null, value: 500n, status: 'paid' },
      { name: 'Bia', email: null, value: 600n, status: 'voided' },
      { name: 'Ana Souza', email: 'ana@example.com', value: 1234n, status: 'pending' },
    ]);
    await change(`delete from orders where total = 5`);
    await change(`delete from clients where id = '${ana}'`);
    expect(await mapped()).toEqual([{ name: 'Bia', email: null, value: 600n, status: 'voided' }]);
    expect((await subscriber.pool.query('select from customers')).rowCount).toBe(1);
  });
});
