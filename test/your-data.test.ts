import { readdir } from 'node:fs/promises';
import { describe, expect, vi } from 'vitest';
import { createOrganization } from '../src/postgres/organizations.ts';
import { migrate } from '../src/postgres/schema/migrate.ts';
import { packageFile } from '../src/process/package-files.ts';
import { createMapper } from '../sync/mapping/mapper.ts';
import { createTestApi } from './support/api.ts';
import {
  type DocumentedRole,
  databaseName,
  documentedBlocks,
  documentedFile,
  documentedTest,
  urlOf,
} from './support/documented-database.ts';
import { createRecordedLog } from './support/logged-lines.ts';
import { sectionsWithSql } from './support/markdown.ts';
import { addMembers, addRow } from './support/rows.ts';
import { addKey } from './support/shop.ts';

const document = 'docs/your-data.md';

const blocks = (heading: string) => documentedBlocks(document, heading);

const it = documentedTest
  .extend('shop', { scope: 'file' }, async ({ as }) => {
    const organizationId = await createOrganization(as('writer'), 'My shop');
    const { secret } = await addKey(as('writer'), organizationId);
    const [first] = await blocks('Start');
    await as('writer').query(first as string);
    await as('migrations').query(await documentedFile('upsert-tables.sql'));
    for (let run = 1; run <= 2; run += 1) {
      await as('writer').query(await documentedFile('upserts.sql'));
    }
    return { organizationId, secret };
  })
  /** Starts a program as a role. */
  .extend(
    'start',
    ({ program, shop: _ }) =>
      (role: DocumentedRole, path: string, ...args: string[]) => {
        return program(path, args, { DATABASE_URL: urlOf(role) });
      },
  )
  /** Runs a program to its end, and returns its output. */
  .extend('run', ({ start }) => async (...command: Parameters<typeof start>) => {
    const program = start(...command);
    expect(await program.exited(), program.output()).toBe(0);
    return program.stdout();
  });

describe('docs/your-data.md', () => {
  it('has SQL only in sections that tests run', async () => {
    expect(await sectionsWithSql(document)).toEqual([
      'Start',
      'Roles and a schema of its own',
      // test/other-tables.test.ts
      'Map your own tables',
      // test/sync/replicated-writes.test.ts
      'The same tables',
      'Tables with other columns',
      'Totals',
    ]);
    expect((await readdir(packageFile('docs/sql'))).sort()).toEqual([
      'example-mapping.sql',
      'example-tables.sql',
      'grants.sql',
      'mapping-grants.sql',
      'roles.sql',
      // test/migrate.test.ts
      'rows-of-two-organizations.sql',
      'upsert-tables.sql',
      'upserts.sql',
      // test/mapping/woocommerce.test.ts
      'woocommerce-mapping.sql',
    ]);
  });

  it('creates all tables in the schema, which `options` in DATABASE_URL selects too', async ({
    as,
  }) => {
    const { rows } = await as().query(
      `select distinct table_schema as schema from information_schema.tables
       where table_schema not in ('pg_catalog', 'information_schema')`,
    );
    expect(rows).toEqual([{ schema: databaseName }]);
    const url = new URL(urlOf());
    url.searchParams.set('options', `-c search_path=${databaseName}`);
    expect(await migrate(url.href)).toMatchObject({ applied: [], isCaptureRestored: false });
  });

  it('upserts each row once by the key of the other system', async ({ as, shop: _ }) => {
    const { rows } = await as('api').query(
      `select customers.name, purchase_value_in_cents as value, payment_status as status
       from purchases join customers on customers.id = customer_id order by value`,
    );
    expect(rows).toEqual([
      { name: 'Carla Dias', value: 4500n, status: 'pending' },
      { name: 'Bruno Lima', value: 9900n, status: 'paid' },
      { name: 'Ana Souza', value: 12990n, status: 'paid' },
    ]);
    expect((await as('api').query('select from customers')).rowCount).toBe(3);
  });

  it('upserts no row of another organization, and draws another number', async ({
    as,
    shop: _,
    onTestFinished,
  }) => {
    const upserts = (await documentedFile('upserts.sql'))
      .replaceAll('c-81f3', 'c-new')
      .replaceAll('o-1', 'o-new');
    const other = await createOrganization(as('writer'), 'Explicit ids');
    onTestFinished(async () => {
      await as('writer').query('delete from organizations where id = $1', [other]);
      await as('writer').query(
        `delete from purchases where order_id_on_integration_platform = 'o-new'`,
      );
      await as('writer').query(`
        delete from customers using customer_numbers
        where customers.id = customer_numbers.id and external_id = 'c-new'`);
    });
    /** Writes a row under the number that is drawn next. */
    const insertNext = (columns: string, values: string, sequence: string) =>
      as('migrations').query(
        `insert into ${columns} select last_value + 1, $1, ${values} from ${sequence}`,
        [other],
      );
    await insertNext('customers (id, organization_id, name)', `'Explicit'`, 'customers_id_seq');
    await expect(as('writer').query(upserts)).rejects.toMatchObject({
      code: '23502',
      table: 'customers',
    });
    await insertNext(
      'purchases (id, organization_id, customer_id, purchase_value_in_cents, updated_at)',
      `(select id from customers where name = 'Explicit'), 7, '2000-01-01Z'`,
      'purchases_id_seq',
    );
    await expect(as('writer').query(upserts)).rejects.toMatchObject({
      code: '23502',
      table: 'purchases',
    });
    await as('writer').query(upserts);
    const { rows } = await as('writer').query(
      `select organizations.name as organization, customers.name, purchase_value_in_cents as value
       from purchases join customers on customers.id = customer_id
         join organizations on organizations.id = customers.organization_id
       where customers.name = 'Explicit' or order_id_on_integration_platform = 'o-new' order by 1`,
    );
    expect(rows).toEqual([
      { organization: 'Explicit ids', name: 'Explicit', value: 7n },
      { organization: 'My shop', name: 'Bruno Lima', value: 9900n },
    ]);
  });

  it('grants each role the rights of its commands', { tags: ['slow'] }, async ({ run, start }) => {
    const [migrated, listed, keys] = await Promise.all([
      run('migrations', 'src/commands/migrate.ts'),
      run('writer', 'src/commands/organizations.ts', 'list'),
      run('writer', 'src/commands/keys.ts', 'list'),
    ]);
    expect(migrated).toBe('Already up to date.\n');
    for (const output of [listed, keys]) expect(output).toContain('My shop');
    const api = start('api', 'src/commands/api.ts');
    await api.printed(/Listening on http/);
    expect(await api.end('SIGTERM')).toBe(0);
  });

  it('grants the role of the API the rights for every list and for statistics', {
    tags: ['slow'],
  }, async ({ as, directory, shop: { secret }, run, onTestFinished }) => {
    await run('worker', 'sync/main.ts', 'once');
    const api = await createTestApi(as('api'), directory);
    onTestFinished(api.close);
    for (const list of [
      ...['customers', 'customers?q=souza', 'segments', 'tags', 'attributes', 'flows'],
      ...['email-campaigns', 'template-campaigns', 'purchases'],
    ]) {
      const { data } = (await api.get(`/v1/${list}`, secret)).json();
      expect(data, list).toHaveLength(
        { customers: 3, 'customers?q=souza': 1, purchases: 3 }[list] ?? 0,
      );
    }
    const stats = await api.get('/v1/purchases/stats?status=paid', secret);
    expect(stats.json()).toMatchObject({ purchase_count: 2, revenue_in_cents: 22890 });
  });

  it('grants the role of the API one more right, with which it counts requests in Postgres', async ({
    as,
    directory,
    shop: { secret },
  }) => {
    const counting = await createTestApi(as('api'), directory, {
      rateLimitStore: 'postgres',
    });
    expect((await counting.get('/v1/me', secret)).statusCode).toBe(500);
    const [limits] = await blocks('Roles and a schema of its own');
    await as('migrations').query(limits as string);
    expect((await counting.get('/v1/me', secret)).statusCode).toBe(200);
    await counting.close();
  });

  it('grants the role of the API the right to record the last use of a key, and no more', async ({
    as,
    directory,
    shop: { secret },
  }) => {
    const use = async () => {
      const api = await createTestApi(as('api'), directory);
      expect((await api.get('/v1/me', secret)).statusCode).toBe(200);
      await api.close();
      const { rows } = await as().query(`select last_used_at as at from ${databaseName}.api_keys`);
      return rows[0].at;
    };
    expect(await use()).toBeNull();
    const [, uses] = await blocks('Roles and a schema of its own');
    await as('migrations').query(uses as string);
    expect(await use()).not.toBeNull();
    const revive = 'update api_keys set revoked_at = null';
    await expect(as('api').query(revive)).rejects.toMatchObject({ code: '42501' });
  });

  it('grants the role of the worker the rights to publish, to verify and to read the status', {
    tags: ['slow'],
  }, async ({ run }) => {
    await run('worker', 'sync/main.ts', 'once');
    expect(JSON.parse(await run('worker', 'sync/main.ts', 'verify', '--json'))).toMatchObject([
      { state: 'equal', purchases: 3 },
    ]);
    await run('worker', 'sync/main.ts', 'status');
  });

  it('grants the role of the worker what it needs to look for a mapping, where there is none', async ({
    as,
  }) => {
    const lines: string[] = [];
    const database = as('worker');
    const queries = vi.spyOn(database, 'query');
    const ending = new AbortController();
    const log = createRecordedLog((line) => lines.push(line));
    const running = createMapper({ database, pollIntervalMs: 10, log }).run(ending.signal);
    await expect.poll(() => queries.mock.calls.length).toBeGreaterThan(3);
    ending.abort();
    await running;
    queries.mockRestore();
    expect(lines).toEqual([]);
  });

  it('grants no role the rights of another', async ({ as }) => {
    const denied = { code: '42501' };
    for (const table of ['customers', 'api_keys', 'purchase_changes']) {
      await expect(as('api').query(`delete from ${table}`)).rejects.toMatchObject(denied);
    }
    await expect(as('worker').query('select from customers')).rejects.toMatchObject(denied);
    await expect(as('worker').query('delete from purchases')).rejects.toMatchObject(denied);
    await expect(as('writer').query('create table own ()')).rejects.toMatchObject(denied);
    await expect(as('writer').query('delete from purchase_changes')).rejects.toMatchObject(denied);
  });

  it('updates totals of paid purchases and counts of members only in rows that differ', async ({
    as,
    shop: { organizationId: organization },
  }) => {
    const writer = as('writer');
    const [statement = ''] = await blocks('Totals');
    const refresh = async () => (await writer.query(statement)).rows;
    const totals = async () => {
      const { rows } = await writer.query(
        `select total_spent_in_cents as spent, total_orders as orders,
           first_purchase_date as first, last_purchase_date as last, updated_at > $1 as is_updated
         from customers where name = 'Bruno Lima'`,
        [new Date('2026-03-03T00:00:00Z')],
      );
      return rows[0];
    };
    const unchanged = { first: null, last: null, is_updated: false };
    expect(await totals()).toEqual({ spent: 0n, orders: 0n, ...unchanged });
    const segment = await addRow(writer, 'segments', { organization_id: organization });
    const { rows } = await writer.query<{ id: bigint }>('select id from customers');
    await addMembers(
      writer,
      'segment',
      organization,
      segment,
      rows.map(({ id }) => id),
    );
    expect(await refresh()).toEqual([{ name: 'My shop', customers: 2n, segments: 1n }]);
    const at = new Date('2026-03-01T12:05:00Z');
    expect(await totals()).toEqual({
      spent: 9900n,
      orders: 1n,
      first: at,
      last: at,
      is_updated: true,
    });
    expect(await refresh()).toEqual([{ name: 'My shop', customers: 0n, segments: 0n }]);

    await writer.query(
      `update purchases set payment_status = 'refunded' where order_number is null`,
    );
    await writer.query('delete from segment_customers where customer_id = $1', [rows[0]?.id]);
    expect(await refresh()).toEqual([{ name: 'My shop', customers: 1n, segments: 1n }]);
    expect(await totals()).toMatchObject({ spent: 0n, orders: 0n, first: null, last: null });
    const counted = await writer.query('select customer_count from segments');
    expect(counted.rows).toEqual([{ customer_count: 2n }]);
  });
});
