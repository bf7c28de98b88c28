import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { applyMapping } from '../../src/postgres/mapping/apply.ts';
import { readMapping } from '../../src/postgres/mapping/mapping-definition.ts';
import { test } from '../support/fixtures.ts';
import { sqlFile, sqlOf } from '../support/markdown.ts';
import { type PostgresServer, startPostgresServer } from '../support/postgres-server.ts';
import { publishedPurchases, storedPurchases } from '../support/published.ts';
import { addMembers, addRow } from '../support/rows.ts';
import { addCustomer, addOrganization, addPurchases } from '../support/shop.ts';
import { createTestWorker } from '../support/sync.ts';

const file = { scope: 'file' } as const;

const it = test
  .extend('publisher', file, async ({ directory }, { onCleanup }) => {
    const settings = { wal_level: 'logical' };
    const publisher = await startPostgresServer(join(directory, 'publisher'), settings);
    onCleanup(publisher.remove);
    return publisher;
  })
  // Removed before the publisher, which has a replication slot for it.
  .extend('subscriber', file, async ({ directory, publisher: _ }, { onCleanup }) => {
    // The pause before a failed copy of a table is repeated.
    const settings = { wal_retrieve_retry_interval: '200ms' };
    const subscriber = await startPostgresServer(join(directory, 'subscriber'), settings);
    onCleanup(subscriber.remove);
    return subscriber;
  })
  /** The worker reads from the subscriber. */
  .extend('subscriberWorker', file, async ({ subscriber, directory }, { onCleanup }) => {
    const worker = await createTestWorker(subscriber.pool, directory);
    onCleanup(worker.close);
    return worker;
  })
  /** SQL blocks of docs/your-data.md. */
  .extend('documentedSql', file, ({ publisher }) => async (heading: string) => {
    const blocks = await sqlOf('docs/your-data.md', heading);
    return blocks.map((sql) => sql.replace('host=publisher dbname=shop', publisher.url));
  })
  /** Two organizations with a customer each. The first has a tag and 100 purchases. */
  .extend('organizations', file, async ({ publisher: { pool }, subscriber, documentedSql }) => {
    const organization = await addOrganization(pool, 'My shop');
    const other = await addOrganization(pool);
    const customer = await addCustomer(pool, organization);
    await addCustomer(pool, other);
    const tag = await addRow(pool, 'tags', { organization_id: organization });
    await addMembers(pool, 'tag', organization, tag, [customer]);
    await addPurchases(pool, organization, customer, 100);
    const [publication, subscription] = await documentedSql('The same tables');
    await pool.query(publication as string);
    await subscriber.pool.query(subscription as string);
    return [organization, other] as const;
  })
  /** Resolves when the tables of the subscriber equal those of the publisher. */
  .extend('untilReplicated', ({ publisher, subscriber }) => async (...tables: string[]) => {
    const content = async ({ pool }: PostgresServer, table: string) =>
      (await pool.query(`select string_agg(t::text, ',' order by t::text) from ${table} as t`))
        .rows[0].string_agg;
    for (const table of tables) {
      while ((await content(publisher, table)) !== (await content(subscriber, table))) {
        await sleep(50);
      }
    }
  })
  .extend(
    'expectPublished',
    ({ subscriber, subscriberWorker, directory, organizations, untilReplicated }) =>
      async () => {
        await untilReplicated('organizations', 'customers', 'customer_tags', 'purchases');
        await subscriberWorker.syncAll();
        for (const id of organizations) {
          expect(await publishedPurchases(directory, id)).toEqual(
            await storedPurchases(subscriber.pool, id),
          );
        }
      },
  );

describe('purchases that logical replication writes', { tags: ['slow'] }, () => {
  it('are published: the initial copy, inserts, updates, deletes, TRUNCATE and moves between organizations', async ({
    publisher,
    directory,
    organizations: [organization, other],
    expectPublished,
  }) => {
    await expectPublished();
    expect(await publishedPurchases(directory, organization)).toHaveLength(100);
    for (const statement of [
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select ${organization}, 1, n from generate_series(1, 50) as n`,
      'update purchases set purchase_value_in_cents = 7 where id % 3 = 0',
      'delete from purchases where id % 7 = 0',
      `update purchases set organization_id = ${other}, customer_id = 2 where id % 5 = 0`,
      'update purchases set id = id + 100000 where id % 11 = 0',
    ]) {
      await publisher.pool.query(statement);
      await expectPublished();
    }
    await publisher.pool.query('truncate purchases');
    await addPurchases(publisher.pool, other, 2n, 5);
    await expectPublished();
  });

  it('have one entry each in the change log, as those of other sessions have', async ({
    subscriber,
    organizations: [, other],
  }) => {
    const countEntries = async (role: 'origin' | 'replica', statement: string) =>
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
        await countEntries(
          role,
          `insert into purchases ${values} select ${other}, 2, 1 from generate_series(1, 9)`,
        ),
      ).toBe(9n);
      expect(await countEntries(role, 'update purchases set utm_term = utm_source')).toBe(5n);
      expect(await countEntries(role, 'delete from purchases')).toBe(5n);
    }
  });

  it('are mapped and published from replicated tables with other columns', async ({
    publisher,
    subscriber,
    subscriberWorker,
    directory,
    documentedSql,
    organizations: [organization],
    untilReplicated,
  }) => {
    const [publication, subscription] = await documentedSql('Tables with other columns');
    const mapping = (await sqlFile('example-mapping.sql')).replaceAll(
      '1::bigint as organization_id',
      `${organization}::bigint as organization_id`,
    );
    const tables = await sqlFile('example-tables.sql');
    for (const { pool } of [publisher, subscriber]) await pool.query(tables);
    const change = (statement: string) => publisher.pool.query(statement);
    const [ana, bia] = [randomUUID(), randomUUID()];
    await change(`insert into store.clients values ('${ana}', 'Ana', 'ana@example.com', now())`);
    const order = (client: string, total: number, state: string) =>
      change(`with added as (
          insert into store.orders values ('o-${total}', '${client}', 'BRL', '${state}', null,
            '2026-03-01T12:00Z'))
        insert into store.order_lines values ('o-${total}', 1, 1, ${total})`);
    await order(ana, 12.34, 'open');
    await change(publication as string);
    await subscriber.pool.query('truncate purchases, customers cascade');
    await subscriber.pool.query(
      `select setval('customers_id_seq', 1000), setval('purchases_id_seq', 1000)`,
    );
    await subscriber.pool.query(subscription as string);
    const areCopied = `select from pg_subscription_rel
      where srrelid::regclass::text like 'store.%' and srsubstate = 'r'`;
    while ((await subscriber.pool.query(areCopied)).rowCount !== 3) await sleep(50);
    await subscriber.pool.query(mapping);
    await applyMapping(subscriber.pool, await readMapping(subscriber.pool), {
      acceptDeletions: false,
      onProgress: () => {},
      signal: new AbortController().signal,
    });

    await change(`insert into store.clients values ('${bia}', 'Bia', null, now())`);
    await order(bia, 5, 'open');
    await order(bia, 6, 'gone');
    await change(`update store.orders set state = 'done' where id = 'o-5'`);
    await change(`update store.clients set full_name = 'Ana Souza' where id = '${ana}'`);
    const mapped = async () => {
      await untilReplicated('store.clients', 'store.orders', 'store.order_lines');
      await subscriberWorker.syncAll();
      expect(await publishedPurchases(directory, organization)).toEqual(
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
    await change(`delete from store.orders where id = 'o-5'`);
    await change(`delete from store.clients where id = '${ana}'`);
    expect(await mapped()).toEqual([{ name: 'Bia', email: null, value: 600n, status: 'voided' }]);
    expect(
      (await subscriber.pool.query('select from mapping_state where repaired > 0')).rowCount,
    ).toBe(0);
  });
});
