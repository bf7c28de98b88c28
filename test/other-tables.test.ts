import { describe, expect } from 'vitest';
import type { Database } from '../src/postgres/connection/pool.ts';
import { readMappingStatus } from '../src/postgres/mapping/mapping-status.ts';
import { createOrganization } from '../src/postgres/organizations.ts';
import {
  type DocumentedRole,
  documentedFile,
  documentedTest,
  urlOf,
} from './support/documented-database.ts';
import { createStore, createViews, dropStore } from './support/documented-store.ts';
import { createTestWorker, follow } from './support/sync.ts';

const ana = '11111111-1111-4111-8111-111111111111';
const bruno = '22222222-2222-4222-8222-222222222222';
const file = { scope: 'file' } as const;

/** The application's role owns its tables and has no right on those of the service. */
const it = documentedTest.extend('store', file, async ({ as }, { onCleanup }) => {
  const organization = await createOrganization(as('writer'), 'My shop');
  const store = await createStore(as);
  onCleanup(() => dropStore(as, store));
  const write = (statement: string) => store.query(statement);
  await write(`
    insert into store.clients values ('${ana}', 'Ana Souza', 'ana@example.com', '2026-01-01Z');
    insert into store.orders
    select 'old-' || n, '${ana}', 'BRL', 'open', 'web', timestamptz '2026-01-02Z' from generate_series(1, 2500) as n;
    insert into store.order_lines select 'old-' || n, 1, 2, n / 2.0 from generate_series(1, 2500) as n`);
  await createViews(as, organization);
  return { write };
});

// Each test continues with the rows of the test before.
describe('own tables that views map, as in docs/your-data.md,', () => {
  it('are checked and copied by the worker, with triggers of a role that reads no rows', async ({
    as,
    program,
    store: _,
  }) => {
    const run = async (role: DocumentedRole, command: string) => {
      const running = program('src/commands/mapping.ts', [command], { DATABASE_URL: urlOf(role) });
      expect(await running.exited(), running.output()).toBe(0);
      return running.output();
    };
    expect(await run('migrations', 'triggers')).toContain('Tables and triggers are complete.');
    await as('migrations').query(await documentedFile('mapping-grants.sql'));
    for (const command of ['check', 'apply']) {
      const output = await run('worker', command);
      expect(output).toMatch(/My shop +1 +2,500 +BRL +3126250\.00/);
      // No role of the service owns the tables.
      expect(output).toContain('replica');
    }
    expect(await purchasesOf(as('worker'), `order_number = 'old-7'`)).toEqual([
      { order: 'old-7', cents: 700n, currency: 'BRL', status: 'pending', platform: 'woocommerce' },
    ]);
  });

  it('are followed by the role of the worker, while the application has no new right', async ({
    as,
    directory,
    store: { write },
    onTestFinished,
  }) => {
    const worker = await createTestWorker(as('worker'), directory);
    onTestFinished(worker.close);
    onTestFinished(follow(worker));
    const isNew = `order_number not like 'old-%'`;
    await write(`
      insert into store.clients values ('${bruno}', 'Bruno Lima', null, '2026-02-01Z');
      insert into store.orders values
        ('o-1', '${bruno}', 'BRL', 'open', 'insta', '2026-02-02Z'),
        ('o-2', '${bruno}', 'JPY', 'done', null, '2026-02-03Z'),
        ('o-3', null, 'BRL', 'done', 'web', '2026-02-03Z');
      insert into store.order_lines values
        ('o-1', 1, 1, 10), ('o-1', 2, 2, 1.17), ('o-2', 1, 3, 100), ('o-3', 1, 1, 5)`);
    const until = async (wanted: object[]) =>
      expect.poll(() => purchasesOf(as('worker'), isNew), { interval: 20 }).toEqual(wanted);
    const o = (order: string, cents: bigint, status: string, currency = 'BRL') => ({
      ...{ order, cents, status, currency },
      platform: { 'o-1': 'facebook', 'o-3': 'woocommerce' }[order] ?? null,
    });
    await until([
      o('o-1', 1234n, 'pending'),
      o('o-2', 300n, 'paid', 'JPY'),
      o('o-3', 500n, 'paid'),
    ]);
    await write(`
      update store.orders set state = 'returned' where id = 'o-1';
      delete from store.order_lines where order_id = 'o-1' and line = 2;
      insert into store.orders values ('o-9', '${ana}', 'BRL', 'done', null, '2026-02-03Z');
      update store.order_lines set order_id = 'o-9' where order_id = 'o-2';
      delete from store.orders where id = 'o-3'`);
    await until([
      o('o-1', 1000n, 'refunded'),
      o('o-2', 0n, 'paid', 'JPY'),
      o('o-9', 30_000n, 'paid'),
    ]);
    await write(`delete from store.clients where id = '${bruno}'`);
    await until([o('o-9', 30_000n, 'paid')]);
    await write(`update store.orders set placed_at = 'infinity' where id = 'o-9'`);
    await expect
      .poll(async () => (await readMappingStatus(as('worker')))?.refusals)
      .toMatchObject([
        { column: 'created_at', reason: 'is not within the years 1 to 9999', examples: ['o-9'] },
      ]);
    await write(`update store.orders set placed_at = '2026-02-03Z' where id = 'o-9'`);
    await expect.poll(async () => (await readMappingStatus(as('worker')))?.refusedRows).toBe(0);
  });

  it('claim no instant that direct writes into a table without triggers have passed', async ({
    as,
    directory,
    store: { write },
    onTestFinished,
  }) => {
    const worker = await createTestWorker(as('worker'), directory);
    onTestFinished(worker.close);
    onTestFinished(follow(worker));
    // The worker may not create triggers on tables of the application.
    await write('create table store.late_orders () inherits (store.orders)');
    onTestFinished(async () => void (await write('drop table store.late_orders')));
    const read = async (order: string, committedAt: Date) => {
      const { rows } = await as('worker').query(
        `select as_of >= $2 as "isClaimed", problem,
           exists (select from purchases where order_number = $1) as "isMapped" from mapping_state`,
        [order, committedAt],
      );
      return rows[0];
    };
    for (const order of ['late-1', 'late-2']) {
      await write(
        `insert into store.late_orders values ('${order}', '${ana}', 'BRL', 'done', null, '2026-02-04Z')`,
      );
      const { rows } = await as('worker').query('select clock_timestamp() as now');
      const committedAt = rows[0].now;
      const seen: string[] = [];
      await expect
        .poll(
          async () => {
            const state = await read(order, committedAt);
            if (state.isClaimed && !state.isMapped) seen.push(order);
            return state;
          },
          { interval: 5 },
        )
        .toMatchObject({ isClaimed: true, isMapped: true });
      expect(seen).toEqual([]);
    }
    expect((await read('late-2', new Date(0))).problem).toMatch(/lack triggers of the mapping/);
    await write(`delete from store.late_orders`);
  });

  it('have totals of customers without a cron job', async ({ as, directory, onTestFinished }) => {
    const worker = await createTestWorker(as('worker'), directory);
    onTestFinished(worker.close);
    await worker.syncAll();
    const { rows } = await as('api').query(
      'select name, total_spent_in_cents as spent, total_orders as orders from customers where name is not null',
    );
    expect(rows).toEqual([{ name: 'Ana Souza', spent: 30_000n, orders: 1n }]);
  });
});

async function purchasesOf(database: Database, condition: string) {
  const { rows } = await database.query(
    `select order_number as order, purchase_value_in_cents as cents, currency,
       payment_status as status, platform from purchases where ${condition} order by order_number`,
  );
  return rows;
}
