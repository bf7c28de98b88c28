import { describe, expect } from 'vitest';
import { createOrganization } from '../src/postgres/organizations.ts';
import type { Database } from '../src/postgres/pool.ts';
import { databaseName, documentedBlocks, documentedTest } from './support/documented-database.ts';
import { sectionsWithSql } from './support/markdown.ts';
import { createTestWorker } from './support/sync.ts';

const document = 'docs/other-tables.md';
const heading = 'Triggers in the same database';

const ana = '11111111-1111-4111-8111-111111111111';
const bruno = '22222222-2222-4222-8222-222222222222';

const file = { scope: 'file' } as const;

/** The application's role owns its tables and has no right on those of the service. */
const it = documentedTest
  .extend('store', file, async ({ as }, { onCleanup }) => {
    const owner = `${databaseName}_writer`;
    await createOrganization(as('writer'), 'My shop');
    const [tables = '', mapping = '', ...statements] = await documentedBlocks(document, heading);
    await as().query(`${tables};
      create role ${databaseName}_store;
      grant usage on schema store to ${databaseName}_migrations, ${databaseName}_store;
      grant select, update, trigger on all tables in schema store to ${databaseName}_migrations;
      grant all on all tables in schema store to ${databaseName}_store;
      grant ${databaseName}_store to ${owner}`);
    onCleanup(async () => {
      await as().query(`drop schema store cascade; drop role ${databaseName}_store`);
    });
    const write = async (statement: string) => {
      const connection = await as('writer').connect();
      try {
        await connection.query(`set role ${databaseName}_store`);
        await connection.query(statement);
      } finally {
        await connection.query('reset role');
        connection.release();
      }
    };
    await write(`
      insert into store.clients values ('${ana}', 'Ana Souza', 'ana@example.com', '2026-01-01Z');
      insert into store.orders
      select 'old-' || n, '${ana}', n, 'open', 'web', timestamptz '2026-01-02Z' from generate_series(1, 2500) as n`);
    await as('migrations').query(mapping);
    const [clients = '', orders = '', ...again] = statements;
    await as('migrations').query('grant select on mapping_failures to public');
    return { write, again, mapExisting: [clients, orders] };
  })
  .extend('purchases', ({ as }) => async (condition = 'true') => {
    const { rows } = await as('worker').query(
      `select order_id_on_integration_platform as order, purchase_value_in_cents as cents,
         payment_status as status, platform from purchases where ${condition} order by id`,
    );
    return rows;
  });

/** The statements of a block, which sets a limit before it commits. */
async function runBlock(database: Database, block: string): Promise<void> {
  const connection = await database.connect();
  try {
    const [limit = '', ...rest] = block.split(/;\n/);
    await connection.query(limit);
    await connection.query(rest.join(';\n'));
  } finally {
    await connection.query('reset lock_timeout');
    connection.release();
  }
}

// Each test continues with the rows of the test before.
describe('docs/other-tables.md', { tags: ['slow'], timeout: 120_000 }, () => {
  it('has SQL only in a section that tests run', async () => {
    expect(await sectionsWithSql(document)).toEqual([heading]);
  });

  it('maps existing rows in batches, and changes nothing the second time', async ({
    as,
    purchases,
    store,
  }) => {
    const run = async () => {
      for (const block of store.mapExisting) await runBlock(as('migrations'), block);
      const { rows } = await as('worker').query('select id, xmin::text from purchases order by id');
      return rows;
    };
    const first = await run();
    expect(first).toHaveLength(2500);
    expect(await run()).toEqual(first);
    expect(await purchases(`order_id_on_integration_platform = 'old-7'`)).toEqual([
      { order: 'old-7', cents: 700n, status: 'pending', platform: 'woocommerce' },
    ]);
  });

  it('maps inserts, updates, new keys and deletes of an application without rights', async ({
    as,
    directory,
    purchases,
    store: { write },
    onTestFinished,
  }) => {
    const isNew = `order_id_on_integration_platform not like 'old-%'`;
    await write(`
      insert into store.clients values ('${bruno}', 'Bruno Lima', null, '2026-02-01Z');
      insert into store.orders values
        ('o-1', '${bruno}', 12.34, 'open', 'insta', '2026-02-02Z'),
        ('o-2', '${bruno}', 0.1, 'done', null, '2026-02-03Z'),
        ('o-3', null, 5, 'done', 'web', '2026-02-03Z')`);
    expect(await purchases(isNew)).toEqual([
      { order: 'o-1', cents: 1234n, status: 'pending', platform: 'facebook' },
      { order: 'o-2', cents: 10n, status: 'paid', platform: null },
    ]);
    await write(`
      update store.orders set state = 'returned', total = 12.35 where id = 'o-1';
      update store.orders set id = 'o-9' where id = 'o-2';
      update store.orders set client_id = '${ana}' where id = 'o-3'`);
    const changed = [
      { order: 'o-1', cents: 1235n, status: 'refunded', platform: 'facebook' },
      { order: 'o-9', cents: 10n, status: 'paid', platform: null },
      { order: 'o-3', cents: 500n, status: 'paid', platform: 'woocommerce' },
    ];
    expect(await purchases(isNew)).toEqual(expect.arrayContaining(changed));
    expect(await purchases(isNew)).toHaveLength(3);

    const worker = await createTestWorker(as('worker'), directory);
    onTestFinished(worker.close);
    await worker.syncAll();
    await write(
      `delete from store.orders where id like 'old-%'; delete from store.clients where id = '${bruno}'`,
    );
    expect(await purchases()).toEqual([changed[2]]);
    await worker.syncAll();
    const { rows } = await as('api').query('select name from customers');
    expect(rows).toEqual([{ name: 'Ana Souza' }]);
  });

  it('lets a write succeed whose value is refused, and maps the row once it is corrected', async ({
    as,
    purchases,
    store: { write, again },
  }) => {
    const failures = async () =>
      (await as('worker').query('select source, external_id, message from mapping_failures')).rows;
    const late = `order_id_on_integration_platform = 'late'`;
    await write(`insert into store.orders values ('late', '${ana}', 1, 'done', 'web', 'infinity')`);
    expect(await failures()).toMatchObject([{ source: 'orders', external_id: 'late' }]);
    expect(await purchases(late)).toEqual([]);
    await write(`update store.orders set placed_at = '2026-03-01Z' where id = 'late'`);
    expect(await purchases(late)).toHaveLength(1);
    for (const statement of again) await as('migrations').query(statement);
    expect(await failures()).toEqual([]);
    expect(await purchases(late)).toHaveLength(1);
  });
});
