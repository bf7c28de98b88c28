import { describe, expect } from 'vitest';
import type { MappingCheck } from '../../src/postgres/mapping/check/check.ts';
import { isolatedTest } from '../support/fixtures.ts';
import { lockTables } from '../support/locks.ts';
import { createReaderRole } from '../support/role.ts';
import { createOwnShop, ordersView } from './own-shop.ts';

const it = isolatedTest
  .extend('store', async ({ database, organizationId }) => {
    await createOwnShop(database.pool, { organizationId, keys: 'uuid' });
    return database.pool;
  })
  .extend('reader', async ({ database, store: _ }, { onCleanup }) => {
    const role = await createReaderRole(database);
    onCleanup(role.drop);
    return role;
  })
  .extend(
    'mapping',
    ({ execute }) =>
      (...args: string[]) =>
        execute('mapping', args),
  );

/** The lines of the totals in the output of a command. */
const totalsIn = (lines: readonly string[]): string[] => {
  const begin = lines.findIndex((line) => line.startsWith('organization  name'));
  const rows = lines.slice(begin);
  return rows.slice(0, rows.indexOf(''));
};

describe('npx crm-data-service mapping', { tags: ['slow'] }, () => {
  it('check prints the totals that apply stores, and apply repeats nothing', async ({
    store,
    mapping,
  }) => {
    const checked = await mapping('check');
    expect(checked.code).toBe(0);
    expect(checked.lines.every((line) => line.length <= 100)).toBe(true);
    expect(checked.lines).toContainEqual(
      expect.stringMatching(/^payment_status +paid +47 +status=paid$/),
    );
    expect(checked.output).toContain(
      '18 purchases belong to a customer without a name: 10 without',
    );
    expect(checked.output).toContain(
      'Nothing is refused. Run `npx crm-data-service mapping apply`.',
    );
    const totals = totalsIn(checked.lines);
    expect(totals).toHaveLength(4);
    expect((await store.query('select from customers')).rowCount).toBe(0);

    const applied = await mapping('apply');
    expect(applied.code).toBe(0);
    const progress = applied.lines.filter((line) => line.includes(' of 109 rows'));
    expect(progress[0]).toMatch(/^\d+ of 109 rows, [\d,]+ rows\/s, [\d.]+ s left$/);
    expect(progress.at(-1)).toMatch(/^109 of 109 rows/);
    expect(applied.output).toContain('Wrote 109 rows, deleted 0.');
    expect(applied.output).toContain(
      'Start the worker, which follows the changes: `npx crm-data-service sync`.',
    );
    expect(totalsIn(applied.lines)).toEqual(totals);
    await store.query('drop trigger map_updated on store.clients');
    expect((await mapping('apply')).output).toContain(
      'Created triggers of store.clients. The worker compares the rows: `npx crm-data-service mapping status`.',
    );
    expect((await mapping('apply')).output).toContain('No trigger is missing.');
  });

  it('check prints JSON, and exits with 1 after errors, with which apply changes nothing', async ({
    store,
    organizationId,
    mapping,
  }) => {
    const printed = JSON.parse((await mapping('check', '--json')).output) as MappingCheck;
    expect(printed).toMatchObject({ findings: [], totals: [{ customers: 18, purchases: 91 }] });
    const zoneless = ordersView(organizationId).replace(
      `o.placed_at at time zone 'America/Sao_Paulo'`,
      'o.placed_at',
    );
    await store.query(`drop view mapped_purchases; ${zoneless}`);
    const checked = await mapping('check');
    expect(checked.code).toBe(1);
    expect(checked.lines.every((line) => line.length <= 100)).toBe(true);
    expect(checked.output).toContain(
      `       → placed_at at time zone 'America/Sao_Paulo' as created_at\n\n1 error. `,
    );
    const applied = await mapping('apply');
    expect(applied.code).toBe(1);
    expect(applied.output).toContain('Nothing is applied. 1 error.');
    expect((await store.query('select from mapping_state')).rowCount).toBe(0);
  });

  it('apply goes on after warnings, and says which rows are left out', async ({
    store,
    organizationId,
    mapping,
  }) => {
    const view = ordersView(organizationId).replace(
      'o.currency,',
      `o.currency, repeat('x', 500 * (1 + o.line_count)) as utm_term,`,
    );
    await store.query(`alter table store.orders add line_count int not null default 2;
      update store.orders set line_count = 1 where currency = 'BRL'; drop view mapped_purchases; ${view}`);
    const { code, output } = await mapping('apply');
    expect(code).toBe(0);
    expect(output).toMatch(
      /^warning: mapped_purchases\.utm_term has more than 1024 bytes in 36 rows/,
    );
    expect(output).toContain('36 rows are refused, and left out: select * from mapping_failures;');
  });

  it('apply goes on where SIGINT has stopped it', async ({ store, program, mapping }) => {
    // Customers are written, and purchases wait.
    const unlock = await lockTables(store, 'purchases', 'share');
    const running = program('src/commands/mapping.ts', ['apply']);
    await running.printed(/18 of 109 rows/);
    expect(await running.end('SIGINT')).toBe(130);
    expect(running.output()).toContain(
      'Stopped after 18 of 109 rows. Run `npx crm-data-service mapping apply` again: it goes on where it was.',
    );
    await unlock();
    expect((await mapping('apply')).output).toContain('Wrote 91 rows, deleted 0.');
  });

  it('apply lets writers of the shop pass while a transaction keeps a table locked', async ({
    store,
    program,
  }) => {
    const addClient = `insert into store.clients (id, joined_at) values (gen_random_uuid(), now())`;
    const writer = await store.connect();
    await writer.query(`begin; ${addClient}`);
    const running = program('src/commands/mapping.ts', ['apply']);
    const isWaiting = `select from pg_locks
      where relation = 'store.clients'::regclass and mode = 'ShareRowExclusiveLock' and not granted`;
    while ((await store.query(isWaiting)).rowCount === 0);
    await store.query(addClient);
    await writer.query('commit');
    writer.release();
    expect(await running.exited()).toBe(0);
    expect(running.output()).toContain('Wrote 111 rows');
  });

  it('apply deletes many rows only with --accept-deletions', async ({
    store,
    mapping,
    execute,
  }) => {
    await store.query(`insert into store.clients (id, joined_at)
      select gen_random_uuid(), now() from generate_series(1, 1500)`);
    expect((await mapping('apply')).output).toContain('Wrote 1,609 rows');
    await store.query('update store.clients set deleted_at = now() where full_name is null');
    await execute('sync', ['once']);
    const held = await mapping('apply');
    expect(held.code).toBe(0);
    expect(held.output).toContain('1500 rows that the views no longer have are not deleted');
    expect(totalsIn(held.lines)[1]).toContain('1,518');
    const accepted = await mapping('apply', '--accept-deletions');
    expect(accepted.output).toContain('Wrote 0 rows, deleted 1,500.');
    expect(accepted.output).not.toContain('are not deleted');
  });

  it('remove leaves the rows, and with --rows deletes them', async ({ store, mapping }) => {
    const counts = async () =>
      (
        await store.query(`select (select count(*)::int from customers) as customers,
          (select count(*)::int from purchases) as purchases,
          (select count(*)::int from pg_trigger where tgname like 'map\\_%') as triggers`)
      ).rows[0];
    expect((await mapping('remove')).output).toBe('No mapping is applied.\n');
    await mapping('apply');
    const removed = await mapping('remove', '--rows');
    expect(removed.output).toMatch(/^Removed \d+ triggers, and the numbers of the rows\.\n/);
    expect(removed.output).toContain('Deleted 18 customers and 91 purchases.');
    expect(await counts()).toEqual({ customers: 0, purchases: 0, triggers: 0 });
    await mapping('apply');
    expect((await mapping('remove')).output).toContain(
      '18 customers and 91 purchases stay. A later `apply` does not know them, and adds all rows again.',
    );
    expect(await counts()).toEqual({ customers: 19, purchases: 91, triggers: 0 });
    expect((await mapping('check')).output).toContain('already has 91 rows in purchases');
  });

  it('a role that only reads is told what to grant', async ({ reader, execute }) => {
    const { code, output } = await execute('mapping', ['check'], { DATABASE_URL: reader.url });
    expect(code).toBe(1);
    expect(output).toContain(`→ grant usage on schema store to ${reader.name};`);
    const refused = await execute('mapping', ['apply'], { DATABASE_URL: reader.url });
    expect(refused.code).toBe(1);
    expect(refused.output).toMatch(/lacks rights on .*grant select, insert, update, delete on/);
  });
});
