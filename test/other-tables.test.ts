import { Registry } from 'prom-client';
import { describe, expect } from 'vitest';
import { type Database, withConnection } from '../src/postgres/connection/pool.ts';
import { createOrganization } from '../src/postgres/organizations.ts';
import { createWorkerMetrics } from '../sync/metrics/metrics.ts';
import { readMappingFailures } from '../sync/status/mapped-table-failures.ts';
import { readStatus } from '../sync/status/status.ts';
import { formatStatus } from '../sync/status/status-table.ts';
import {
  databaseName,
  documentedBlocks,
  documentedFile,
  documentedTest,
} from './support/documented-database.ts';
import { createTestWorker } from './support/sync.ts';

const ana = '11111111-1111-4111-8111-111111111111';
const carla = '33333333-3333-4333-8333-333333333333';
const bruno = '22222222-2222-4222-8222-222222222222';

const file = { scope: 'file' } as const;

/** The application's role owns its tables and has no right on those of the service. */
const it = documentedTest
  .extend('store', file, async ({ as }, { onCleanup }) => {
    const owner = `${databaseName}_writer`;
    await createOrganization(as('writer'), 'My shop');
    const [rights, retryStatements = '', find = ''] = await documentedBlocks(
      'docs/your-data.md',
      'Map your own tables',
    );
    await as().query(`${await documentedFile('example-tables.sql')}; ${rights}
      create role ${databaseName}_store;
      grant usage on schema store to ${databaseName}_store;
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
      select 'old-' || n, '${ana}', 'BRL', 'open', 'web', timestamptz '2026-01-02Z' from generate_series(1, 2500) as n;
      insert into store.order_lines select 'old-' || n, 1, 2, n / 2.0 from generate_series(1, 2500) as n`);
    await as('migrations').query(await documentedFile('map-tables.sql'));
    return {
      write,
      find: () => as('migrations').query(find),
      retry: () => retry(as('migrations'), retryStatements),
    };
  })
  .extend('purchases', ({ as }) => async (condition = 'true') => {
    const { rows } = await as('worker').query(
      `select order_id_on_integration_platform as order, purchase_value_in_cents as cents,
         currency, payment_status as status, platform from purchases where ${condition} order by id`,
    );
    return rows;
  });

/** The procedure commits, so its call is no part of another transaction. */
async function retry(database: Database, block: string): Promise<void> {
  const connection = await database.connect();
  try {
    for (const statement of block.split(/;\n/)) await connection.query(statement);
  } finally {
    await connection.query('reset lock_timeout');
    connection.release();
  }
}

const order = (order: string, cents: bigint, status: string, platform: string | null = null) => ({
  ...{ order, cents, status, platform },
  currency: 'BRL',
});

// Each test continues with the rows of the test before.
describe('own tables that triggers map, as in docs/your-data.md,', {
  tags: ['slow'],
  timeout: 120_000,
}, () => {
  it('maps existing rows in batches, and changes nothing the second time', async ({
    as,
    purchases,
    store,
  }) => {
    const run = async () => {
      await store.retry();
      const { rows } = await as('worker').query('select id, xmin::text from purchases order by id');
      return rows;
    };
    const first = await run();
    expect(first).toHaveLength(2500);
    expect(await run()).toEqual(first);
    expect(await purchases(`order_id_on_integration_platform = 'old-7'`)).toEqual([
      order('old-7', 700n, 'pending', 'woocommerce'),
    ]);
    expect(await readMappingFailures(as('worker'))).toBeNull();
  });

  it('maps inserts, updates, new keys, lines and deletes of an application without rights', async ({
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
        ('o-1', '${bruno}', 'BRL', 'open', 'insta', '2026-02-02Z'),
        ('o-2', '${bruno}', 'JPY', 'done', null, '2026-02-03Z'),
        ('o-3', null, 'BRL', 'done', 'web', '2026-02-03Z');
      insert into store.order_lines values
        ('o-1', 1, 1, 10), ('o-1', 2, 2, 1.17), ('o-2', 1, 3, 100), ('o-3', 1, 1, 5)`);
    expect(await purchases(isNew)).toEqual([
      order('o-1', 1234n, 'pending', 'facebook'),
      { ...order('o-2', 300n, 'paid'), currency: 'JPY' },
    ]);
    await write(`
      update store.orders set state = 'returned' where id = 'o-1';
      delete from store.order_lines where order_id = 'o-1' and line = 2;
      update store.order_lines set quantity = 4 where order_id = 'o-2';
      update store.orders set client_id = '${ana}' where id = 'o-3';
      insert into store.orders values ('o-9', '${ana}', 'BRL', 'done', null, '2026-02-03Z');
      update store.order_lines set order_id = 'o-9' where order_id = 'o-2'`);
    const kept = [order('o-3', 500n, 'paid', 'woocommerce'), order('o-9', 40_000n, 'paid')];
    const changed = [
      order('o-1', 1000n, 'refunded', 'facebook'),
      { ...order('o-2', 0n, 'paid'), currency: 'JPY' },
      ...kept,
    ];
    expect(await purchases(isNew)).toEqual(expect.arrayContaining(changed));
    expect(await purchases(isNew)).toHaveLength(4);

    const worker = await createTestWorker(as('worker'), directory);
    onTestFinished(worker.close);
    await worker.syncAll();
    await write(
      `delete from store.orders where id like 'old-%'; delete from store.clients where id = '${bruno}'`,
    );
    expect(await purchases()).toEqual(expect.arrayContaining(kept));
    expect(await purchases()).toHaveLength(2);
    await worker.syncAll();
    const { rows } = await as('api').query('select name from customers');
    expect(rows).toEqual([{ name: 'Ana Souza' }]);
  });

  it('adds the lines that concurrent transactions write to one order', async ({
    as,
    purchases,
    store: { write },
  }) => {
    const lines = [3, 4, 5, 6].map((line) =>
      write(`insert into store.order_lines values ('o-3', ${line}, 1, 1)`),
    );
    await Promise.all(lines);
    expect(await purchases(`order_id_on_integration_platform = 'o-3'`)).toMatchObject([
      { cents: 900n },
    ]);
    expect((await as('migrations').query('select from mapping_deviations')).rowCount).toBe(0);
  });

  it('lets a write succeed whose value is refused, and maps the row once it is corrected', async ({
    as,
    purchases,
    store: { write, retry },
  }) => {
    const late = `order_id_on_integration_platform = 'late'`;
    await write(
      `insert into store.orders values ('late', '${ana}', 'BRL', 'done', 'web', 'infinity')`,
    );
    const refused = { refused: 1, deviating: 0, since: expect.any(Date) };
    expect(await readMappingFailures(as('worker'))).toEqual(refused);
    await retry();
    expect(await readMappingFailures(as('worker'))).toEqual(refused);
    expect(await purchases(late)).toEqual([]);
    await write(`update store.orders set placed_at = '2026-03-01Z' where id = 'late'`);
    expect(await purchases(late)).toHaveLength(1);
    expect(await readMappingFailures(as('worker'))).toBeNull();
  });

  it('fails a write whose mapping may succeed later, such as after a lock timeout', async ({
    as,
    purchases,
    store: { write },
  }) => {
    const paid = `update store.orders set state = 'open' where id = 'o-9'`;
    await withConnection(as('migrations'), async (other) => {
      await other.query('begin; select from purchases for update');
      await expect(write(`set local lock_timeout = '100ms'; ${paid}`)).rejects.toMatchObject({
        code: '55P03',
      });
      await other.query('rollback');
    });
    expect(await readMappingFailures(as('worker'))).toBeNull();
    await write(paid);
    expect(await purchases(`order_id_on_integration_platform = 'o-9'`)).toMatchObject([
      { status: 'pending' },
    ]);
  });

  it.for([
    [
      'a trigger was disabled',
      `alter table store.orders disable trigger map_row;
       update store.orders set state = 'done' where id = 'o-9';
       alter table store.orders enable trigger map_row`,
      1,
    ],
    [
      'rows were written as by a replica',
      `set local session_replication_role = replica;
       insert into store.clients values ('${carla}', 'Carla Dias', null, '2026-02-01Z');
       update store.clients set full_name = 'Ana Lima' where id = '${ana}';
       delete from store.orders where id = 'o-3'`,
      3,
    ],
    ['a purchase was changed', `update purchases set purchase_value_in_cents = 7`, 2],
    ['a table was emptied', 'truncate store.order_lines', 1],
  ] as const)(
    'finds deviating rows, shows them, and maps them again: %s',
    async ([_, statements, deviating], { as, directory, store: { find, retry } }) => {
      await as().query(`set local search_path = ${databaseName}; ${statements}`);
      await find();
      const found = await readMappingFailures(as('worker'));
      expect(found).toEqual({ refused: 0, deviating, since: expect.any(Date) });

      const status = await readStatus(as('worker'), directory, '', []);
      expect(status).toMatchObject({ mappingFailures: found, failure: null });
      expect(formatStatus(status)).toContain(`0 rows were refused and ${deviating} rows deviate`);
      const registry = new Registry();
      createWorkerMetrics(registry).followed({
        state: () => ({ lastPoll: null, organizations: [] }),
        instance: null,
        readMappingFailures: () => readMappingFailures(as('worker')),
      });
      expect(await registry.metrics()).toContain(
        `crm_sync_mapping_failures{kind="deviating"} ${deviating}\n`,
      );

      await retry();
      await find();
      expect(await readMappingFailures(as('worker'))).toBeNull();
    },
  );
});
