import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { formatInstant } from '../../src/domain/instant.ts';
import { encodeId } from '../../src/domain/public-id.ts';
import {
  organizationDirectory,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { maxRecordAgeMs } from '../../src/purchase-store/up-to-date.ts';
import { createTestApi, type TestApi } from '../support/api.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { runProgram } from '../support/program.ts';
import { createReaderRole } from '../support/role.ts';
import { withoutForeignKeys } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';
import { temporaryDirectory } from '../support/temporary-directory.ts';

describe("the operators' commands", { timeout: 60_000 }, () => {
  let database: TestDatabase;
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>;
  let api: TestApi;
  let organization: bigint;
  let customer: bigint;

  beforeEach(async () => {
    database = await createTestDatabase();
    directory = await temporaryDirectory();
    api = await createTestApi(database.pool, directory.path);
    organization = await addOrganization(database.pool, 'Livraria Ipê');
    customer = await addCustomer(database.pool, organization);
  });
  afterEach(async () => {
    await api.close();
    await database.drop();
    await directory.remove();
  });

  const execute = async (program: string, ...args: string[]) => {
    const running = runProgram(program, args, {
      DATABASE_URL: database.url,
      DATA_DIR: directory.path,
    });
    const code = await running.exited();
    return { code, output: running.output(), lines: running.output().trim().split('\n') };
  };
  const keys = (...args: string[]) => execute('src/commands/keys.ts', ...args);
  const organizations = (...args: string[]) => execute('src/commands/organizations.ts', ...args);
  const sync = (...args: string[]) => execute('sync/main.ts', ...args);
  const publicId = () => encodeId('organization', organization);

  it('create a key whose secret, alone on the last line, works until it is revoked', async () => {
    const created = await keys('create', '--organization', publicId(), '--name', 'BI');
    expect(created.code).toBe(0);
    const secret = created.lines.at(-1) as string;
    expect(secret).toMatch(/^crm_live_[0-9A-Za-z]{30,}$/);
    expect((await api.get('/v1/me', secret)).json()).toMatchObject({
      organization: { id: publicId(), name: 'Livraria Ipê' },
      api_key: { name: 'BI', scopes: ['read'] },
    });

    const listed = JSON.parse((await keys('list', '--json')).output) as Record<string, string>[];
    const own = listed.filter(({ name }) => name === 'BI');
    expect(own).toMatchObject([{ state: 'active', organization: publicId() }]);
    expect(JSON.stringify(listed)).not.toContain(secret.slice(10));

    expect((await keys('revoke', own[0]?.id as string)).code).toBe(0);
    expect((await api.get('/v1/me', secret)).statusCode).toBe(401);
    expect((await keys('list')).output).toContain('revoked');
  });

  it('create an organization, print its id alone on the last line, and list it', async () => {
    const name = `Padaria ${'São José '.repeat(9)}`.trim();
    const created = await organizations('create', '--name', name);
    expect(created.code).toBe(0);
    const id = created.lines.at(-1) as string;
    expect((await keys('create', '--organization', id, '--name', 'BI')).code).toBe(0);
    expect(JSON.parse((await organizations('list', '--json')).output)).toMatchObject([
      { id: publicId(), organization_id: `${organization}`, name: 'Livraria Ipê', active_keys: 0 },
      { id, name, created_at: expect.stringMatching(/^20.*Z$/), active_keys: 1 },
    ]);
    const listed = await organizations('list');
    expect(listed.output).toContain('Livraria Ipê');
    expect(listed.output).toMatch(/org_\w+ +\d+ {2}Padaria São José .*… {2}20/);
    expect(Math.max(...listed.lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('delete an organization with --yes only, and its keys at once', async () => {
    const { secret } = await addKey(database.pool, organization);
    const padaria = await addOrganization(database.pool, 'Padaria');
    const kept = await addKey(database.pool, padaria);
    await addPurchase(database.pool, organization, { customer_id: customer });
    const others = await addCustomer(database.pool, padaria);
    await withoutForeignKeys(database.pool, (connection) =>
      addPurchase(connection, organization, { customer_id: others }),
    );
    const all =
      `${publicId()} (Livraria Ipê) with its API keys (1), customers (1), purchases (2) ` +
      'and everything else that belongs to it';
    const refused = await organizations('delete', publicId());
    expect(refused.code).toBe(1);
    expect(refused.lines).toEqual([
      `Nothing is deleted. With --yes, this command deletes ${all}. This cannot be undone.`,
    ]);
    expect((await api.get('/v1/purchases', secret)).json().data).toHaveLength(2);

    const deleted = await organizations('delete', publicId(), '--yes');
    expect(deleted).toMatchObject({ code: 0, lines: [`Deleting ${all}.`, expect.anything()] });
    expect((await api.get('/v1/purchases', secret)).statusCode).toBe(401);
    expect((await api.get('/v1/me', kept.secret)).json().organization.name).toBe('Padaria');
    expect((await database.pool.query('select from purchases')).rowCount).toBe(0);
    expect((await database.pool.query('select from customers')).rowCount).toBe(1);
    const again = await organizations('delete', publicId(), '--yes');
    expect(again.code).toBe(1);
    expect(again.output).toContain(`There is no organization ${publicId()}.`);
  });

  it('fit 80 columns, whatever names are', async () => {
    const name = 'Comércio de Café e Açaí da Conceição & Filhos Ltda. – São Paulo';
    const long = await addOrganization(database.pool, name);
    await addKey(database.pool, long, { name, scopes: ['read', 'write'] });
    await database.pool.query(
      `insert into purchases (organization_id, customer_id, purchase_value_in_cents)
       select $1, $2, 1 from generate_series(1, 12345)`,
      [long, await addCustomer(database.pool, long)],
    );
    expect((await sync('once')).code).toBe(0);
    const status = await sync('status');
    for (const [ended, cut] of [
      [await keys('list'), 'Comércio de Café e Aç…'],
      [status, 'Comércio de Café e …'],
    ] as const) {
      expect(ended.code).toBe(0);
      const lines = ended.output.split('\n');
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
      expect(ended.output).toContain(encodeId('organization', long));
      expect(lines.filter((line) => line.includes(cut))).toHaveLength(1);
    }
    expect(status.output).toMatch(/ {2}12,345 {2}\d{4}-\S+Z {2}stopped\n/);
  });

  it('create a key that expires', async () => {
    const args = ['--organization', publicId(), '--name', 'Trial', '--expires-in', '90d'];
    expect((await keys('create', ...args)).code).toBe(0);
    const listed = JSON.parse((await keys('list', '--json')).output) as {
      name: string;
      created_at: string;
      expires_at: string;
    }[];
    const trial = listed.find(({ name }) => name === 'Trial');
    const days =
      (Date.parse(trial?.expires_at ?? '') - Date.parse(trial?.created_at ?? '')) / 864e5;
    expect(Math.round(days)).toBe(90);
  });

  it.each([
    [2, ['create', '--name', 'BI']],
    [2, ['create', '--organization', 'org_x', '--name', 'BI', '--expires-in', 'soon']],
    [2, ['create', '--organization', 'org_x', '--name', 'BI', '--scope', 'admin']],
    [2, ['invent']],
    [1, ['create', '--organization', 'org_x', '--name', 'BI']],
    [1, ['revoke', 'bak_x']],
  ])('exit with %i after `keys %j`', async (code, args) => {
    const ended = await keys(...(args as string[]));
    expect(ended.code).toBe(code);
    expect(ended.output).not.toMatch(/^\s+at /m);
  });

  it.each([[['create']], [['create', '--name', ' ']], [['delete']]])(
    'exit with 2 after `organizations %j`',
    async (args) => {
      expect((await organizations(...args)).code).toBe(2);
    },
  );

  it('bring every organization up to date in one pass and tell how fresh each is', async () => {
    const status = async () => JSON.parse((await sync('status', '--json')).output);
    expect(await status()).toMatchObject({
      workers: [],
      organizations: [{ organization: publicId(), state: 'stopped', purchases: null }],
    });
    await addPurchase(database.pool, organization, { customer_id: customer });
    expect((await sync('once')).code).toBe(0);
    expect((await status()).organizations).toMatchObject([
      { purchases: 1, pendingChanges: 0, lagSeconds: 0, failure: null },
    ]);
    await addPurchase(database.pool, organization, { customer_id: customer });
    expect((await status()).organizations).toMatchObject([{ purchases: 1, pendingChanges: 1 }]);
    const once = await sync('once', '--organization', publicId(), '--json');
    expect(JSON.parse(once.output.slice(once.output.indexOf('{\n')))).toMatchObject({
      organizations: [{ purchases: 2, pendingChanges: 0 }],
    });
  });

  it('list keys and organizations for a role that may only read', async () => {
    const reader = await createReaderRole(database);
    try {
      for (const program of ['src/commands/keys.ts', 'src/commands/organizations.ts']) {
        const running = runProgram(program, ['list', '--json'], { DATABASE_URL: reader.url });
        expect(await running.exited(), running.output()).toBe(0);
        expect(JSON.parse(running.answer())).toBeInstanceOf(Array);
      }
    } finally {
      await reader.drop();
    }
  });

  it('show the status to a role that may only read, and write nothing for that', async () => {
    const reader = await createReaderRole(database);
    try {
      const environment = { DATABASE_URL: reader.url, DATA_DIR: directory.path };
      const status = async (...args: string[]) => {
        const program = runProgram('sync/main.ts', ['status', ...args], environment);
        expect(await program.exited(), program.output()).toBe(0);
        return program.answer();
      };
      expect(await status()).toMatch(/^No worker is running/);
      expect(existsSync(join(directory.path, 'purchases'))).toBe(false);

      const worker = runProgram('sync/main.ts', ['run'], {
        ...environment,
        DATABASE_URL: database.url,
      });
      await worker.printed(/"built"/);
      const { workers, organizations } = JSON.parse(await status('--json'));
      expect(workers).toMatchObject([{ since: null, failure: null }]);
      expect(organizations).toMatchObject([{ purchases: 0, pendingChanges: 0, failure: null }]);
      expect(await status()).toMatch(/^Worker: pid \d+ on .+\.\n/);
      expect(await worker.end('SIGTERM')).toBe(0);
    } finally {
      await reader.drop();
    }
  });

  it('show the instant that answers show', async () => {
    const worker = runProgram('sync/main.ts', ['run'], {
      DATABASE_URL: database.url,
      DATA_DIR: directory.path,
    });
    const { secret } = await addKey(database.pool, organization);
    const shown = async () => (await api.get('/v1/purchases', secret)).headers['x-data-as-of'];
    const published = () => readPublished(organizationDirectory(directory.path, organization));
    await worker.printed(/"built"/);
    // The worker has looked again since it published the file.
    while (String(await shown()) <= formatInstant(published()?.asOf ?? 0n)) await sleep(10);
    expect(await worker.end('SIGTERM')).toBe(0);
    await sleep(maxRecordAgeMs);
    const [status] = JSON.parse((await sync('status', '--json')).output).organizations;
    expect(status.asOf).toBe(await shown());
    expect((await sync('status')).output).toContain(`  ${status.asOf}  `);
  });

  it('do not take for fresh what the change log was pruned beyond', async () => {
    const status = async () => JSON.parse((await sync('status', '--json')).output).organizations[0];
    await addPurchase(database.pool, organization, { customer_id: customer });
    expect((await sync('once')).code).toBe(0);
    await addPurchase(database.pool, organization, { customer_id: customer });
    // As a worker of another folder does, once this one was away for a day.
    await database.pool.query(
      `with gone as (delete from purchase_changes)
       insert into purchase_change_pruning
       values ($1, pg_snapshot_xmax(pg_current_snapshot()))
       on conflict (organization_id) do update set pruned_below = excluded.pruned_below`,
      [organization],
    );
    const { pendingChanges, lagSeconds } = await status();
    expect(pendingChanges).toBeNull();
    expect(lagSeconds).toBeGreaterThan(0);
  });

  it('tell of each organization that cannot be brought up to date in a line, without rows', async () => {
    await addPurchase(database.pool, organization, { customer_id: customer });
    await database.pool.query('alter table purchases rename column platform to platform_name');
    const ended = await sync('once');
    expect(ended.code).toBe(1);
    expect(ended.lines.at(-1)).toBe(
      `${publicId()}: The column purchases.platform is missing and should be text.`,
    );
    expect(ended.output).not.toMatch(/^\s+at /m);
  });

  it('refuse a second worker on the same folder in one line', async () => {
    const first = runProgram('sync/main.ts', ['run'], {
      DATABASE_URL: database.url,
      DATA_DIR: directory.path,
    });
    await first.printed(/following changes/);
    const second = await sync('once');
    expect(second.code).toBe(1);
    expect(second.lines.at(-1)).toMatch(/^Another sync worker writes to/);
    expect(await first.end('SIGTERM')).toBe(0);
  });

  it('migrate twice without harm', async () => {
    const again = await execute('src/commands/migrate.ts');
    expect(again).toMatchObject({ code: 0, output: 'Already up to date.\n' });
  });

  it('seed and print a working key for each organization', async () => {
    const args = ['--organizations', '2', '--customers', '20', '--purchases', '50', '--seed', '3'];
    const seeded = await execute('src/commands/seed.ts', ...args, '--until', '2026-01-31');
    expect(seeded.code).toBe(0);
    const rows = [...seeded.output.matchAll(/^(org_\w+) {2}(crm_live_\w+) {2}(.+)$/gm)];
    expect(rows).toHaveLength(2);
    for (const [, id, secret, name] of rows) {
      const me = (await api.get('/v1/me', secret)).json();
      expect(me.organization).toEqual({ id, name });
      const stats = (await api.get('/v1/purchases/stats', secret)).json();
      expect(stats.purchase_count).toBe(50);
    }
  });
});

describe('npm run api', { timeout: 60_000 }, () => {
  it('stops cleanly, also when it is told to while it starts', async () => {
    const database = await createTestDatabase();
    const directory = await temporaryDirectory();
    const environment = { DATABASE_URL: database.url, DATA_DIR: directory.path, PORT: '0' };
    const running = runProgram('src/commands/api.ts', [], environment);
    await running.printed(/Listening on http/);
    expect(await running.end('SIGTERM')).toBe(0);

    const starting = runProgram('src/commands/api.ts', [], environment);
    // Told as soon as it connects to Postgres, which it does before it listens.
    const connected = `select from pg_stat_activity where datname = current_database()
      and application_name <> 'test' and backend_type = 'client backend'`;
    while ((await database.pool.query(connected)).rowCount === 0) {
      if (starting.child.exitCode !== null) break;
    }
    expect(await starting.end('SIGTERM')).toBe(0);
    await database.drop();
    await directory.remove();
  });
});
