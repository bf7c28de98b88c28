import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { encodeId } from '../../src/domain/public-id.ts';
import { withConnection } from '../../src/postgres/connection/pool.ts';
import { migrationLock } from '../../src/postgres/schema/migrate.ts';
import { test } from '../support/fixtures.ts';
import { createReaderRole } from '../support/role.ts';
import { withoutForeignKeys } from '../support/rows.ts';
import { addCustomer, addKey, addOrganization, addPurchase } from '../support/shop.ts';

const it = test
  .extend('organization', ({ newShop }) => encodeId('organization', newShop.organizationId))
  /** Rolls a key. Returns the new key, and the command's first line. */
  .extend('roll', ({ execute }) => async (id: string, overlap: string) => {
    const { code, lines } = await execute('keys', ['roll', id, '--overlap', overlap]);
    expect(code).toBe(0);
    const [line = '', secret = ''] = [lines[0], lines.at(-1)];
    expect(secret).toMatch(/^crm_live_\w{42}$/);
    return { id: /bak_\w+/.exec(line)?.[0] as string, secret, line };
  })
  /** Runs `list --json` as a role that may only read. */
  .extend('list', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const reader = await createReaderRole(database);
    onCleanup(reader.drop);
    return reader.url;
  });

describe('the commands for keys and organizations', () => {
  it('create a key whose secret, alone on the last line, works until it is revoked', async ({
    api,
    execute,
    list,
    organization,
  }) => {
    const expiring = ['--organization', organization, '--name', 'BI', '--expires-in', '90d'];
    const created = await execute('keys', ['create', ...expiring]);
    expect(created.code).toBe(0);
    expect(created.output).toContain('It expires in 90 days.');
    const withoutEnd = await execute('keys', ['create', ...expiring.slice(0, 2), '--name', 'ERP']);
    expect(withoutEnd.output).toContain('It never expires, because --expires-in is left out.');
    expect(withoutEnd.lines.at(-1)).toMatch(/^crm_live_[0-9A-Za-z]{30,}$/);
    const secret = created.lines.at(-1) as string;
    expect(secret).toMatch(/^crm_live_[0-9A-Za-z]{30,}$/);
    expect((await api.get('/v1/me', secret)).json()).toMatchObject({
      organization: { id: organization, name: 'Livraria Ipê' },
      api_key: { name: 'BI', scopes: ['read'] },
    });

    const listed = await execute('keys', ['list', '--json'], { DATABASE_URL: list });
    expect(listed.output).not.toContain(secret.slice(10));
    const [own, ...others] = (JSON.parse(listed.output) as Record<string, string>[]).filter(
      ({ name }) => name === 'BI',
    );
    expect(others).toEqual([]);
    expect(own).toMatchObject({ state: 'active', organization });
    const lifetime = Date.parse(own?.expires_at ?? '') - Date.parse(own?.created_at ?? '');
    expect(Math.round(lifetime / 86_400_000)).toBe(90);

    expect((await execute('keys', ['revoke', own?.id as string])).code).toBe(0);
    expect((await api.get('/v1/me', secret)).statusCode).toBe(401);
    expect((await execute('keys', ['list'])).output).toContain('revoked');
  });

  it('roll a key: the old one works until the overlap ends, not longer, and the new one has its attributes', {
    tags: ['slow'],
  }, async ({ database, execute, newShop: { organizationId }, roll, startApi }) => {
    const expiresAt = new Date(Date.now() + 90 * 86_400_000);
    const attributes = { name: 'BI', scopes: ['read', 'write'], expiresAt } as const;
    const old = await addKey(database.pool, organizationId, attributes);
    const apis = [await startApi(), await startApi({ rateLimitStore: 'postgres' })];
    const statuses = async (secret: string) =>
      Promise.all(apis.map(async (api) => (await api.get('/v1/me', secret)).statusCode));
    const oldId = encodeId('api_key', old.id);
    const second = await roll(oldId, '24h');
    expect(await statuses(old.secret)).toEqual([200, 200]);
    expect(await statuses(second.secret)).toEqual([200, 200]);
    const third = await roll(second.id, '0');
    expect(await statuses(second.secret)).toEqual([401, 401]);
    expect(await statuses(third.secret)).toEqual([200, 200]);

    const own = ['--organization', encodeId('organization', organizationId)];
    const listed = await execute('keys', ['list', ...own]);
    expect(listed.output).toMatch(
      /never expires[\s\S]*expires in 24 h[\s\S]*expired[\s\S]*expires in 90 d/,
    );
    const keys = JSON.parse((await execute('keys', ['list', '--json', ...own])).output);
    const same = { name: 'BI', scopes: ['read', 'write'], last_used_at: null };
    expect(keys.slice(1)).toMatchObject([
      { id: oldId, ...same, state: 'active', replaces: null },
      { id: second.id, ...same, state: 'expired', replaces: oldId },
      { id: third.id, ...same, state: 'active', replaces: second.id },
    ]);
    const days = (key: Record<string, string>) =>
      (Date.parse(key.expires_at as string) - Date.parse(key.created_at as string)) / 86_400_000;
    expect([days(keys[1]), days(keys[3])].map((count) => Math.round(count))).toEqual([1, 90]);

    await database.pool.query('update api_keys set expires_at = now() where id = $1', [old.id]);
    expect(await statuses(old.secret)).toEqual([401, 401]);
    expect(await statuses(third.secret)).toEqual([200, 200]);
  });

  it('roll a key that expires before the overlap ends, without a later expiry', async ({
    database,
    newShop: { organizationId },
    roll,
  }) => {
    const expiresAt = new Date(Date.now() + 3_600_000);
    const { id } = await addKey(database.pool, organizationId, { expiresAt });
    const { line } = await roll(encodeId('api_key', id), '24h');
    expect(line).toContain(`which expires at ${expiresAt.toISOString()}`);
    const { rows } = await database.pool.query('select expires_at from api_keys where id = $1', [
      id,
    ]);
    expect(rows).toEqual([{ expires_at: expiresAt }]);
  });

  it('roll a key once, of two commands at the same time', { tags: ['slow'] }, async ({
    database,
    execute,
    newShop: { organizationId },
  }) => {
    const { id } = await addKey(database.pool, organizationId);
    const roll = ['roll', encodeId('api_key', id), '--overlap', '1h'];
    const both = await Promise.all([execute('keys', roll), execute('keys', roll)]);
    expect(both.map(({ code }) => code).sort()).toEqual([0, 1]);
    const { rows } = await database.pool.query<{ id: bigint }>(
      'select id from api_keys where replaces = $1',
      [id],
    );
    const replacement = encodeId('api_key', rows[0]?.id as bigint);
    expect(rows).toHaveLength(1);
    const refused = both.find(({ code }) => code === 1);
    expect(refused?.output).toContain(`was rolled before: ${replacement} replaces it`);
  });

  it.for([
    ['revoked', 'revoked_at = now()'],
    ['expired', 'expires_at = now()'],
  ] as const)('roll no %s key', async ([state, change], { database, execute, newShop }) => {
    const { id } = await addKey(database.pool, newShop.organizationId);
    await database.pool.query(`update api_keys set ${change} where id = $1`, [id]);
    const publicId = encodeId('api_key', id);
    const refused = await execute('keys', ['roll', publicId, '--overlap', '1h']);
    expect(refused.code).toBe(1);
    expect(refused.lines).toEqual([
      `${publicId} is ${state} already. \`npx crm-data-service keys create\` makes a new key.`,
    ]);
  });

  it('list when a key was last used', async ({ database, execute, newShop }) => {
    const { id } = await addKey(database.pool, newShop.organizationId);
    const used = `update api_keys set last_used_at = now() - interval '3 min' where id = $1`;
    await database.pool.query(used, [id]);
    const own = ['--organization', encodeId('organization', newShop.organizationId)];
    expect((await execute('keys', ['list', ...own])).output).toMatch(/ never\n[\s\S]* 3 min ago\n/);
  });

  it('create an organization, print its id alone on the last line, and list it', {
    tags: ['slow'],
  }, async ({ execute, list, newShop, organization }) => {
    const name = `Padaria ${'São José '.repeat(9)}`.trim();
    const created = await execute('organizations', ['create', '--name', name]);
    expect(created.code).toBe(0);
    const id = created.lines.at(-1) as string;
    expect((await execute('keys', ['create', '--organization', id, '--name', 'BI'])).code).toBe(0);
    const json = await execute('organizations', ['list', '--json'], { DATABASE_URL: list });
    const existing = { organization_id: `${newShop.organizationId}`, name: 'Livraria Ipê' };
    expect(JSON.parse(json.output)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: organization, ...existing, active_keys: 1 }),
        expect.objectContaining({
          id,
          name,
          created_at: expect.stringMatching(/^20.*Z$/),
          active_keys: 1,
        }),
      ]),
    );
    const listed = await execute('organizations', ['list']);
    expect(listed.output).toContain('Livraria Ipê');
    expect(listed.output).toMatch(/org_\w+ +\d+ {2}Padaria São José .*… {2}20/);
    expect(Math.max(...listed.lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('delete an organization with --yes only, and its keys at once', { tags: ['slow'] }, async ({
    api,
    database,
    execute,
    newShop: { organizationId, secret },
    organization,
    otherShop,
  }) => {
    const customerId = await addCustomer(database.pool, organizationId);
    await addPurchase(database.pool, organizationId, { customer_id: customerId });
    const foreign = await addCustomer(database.pool, otherShop.organizationId);
    await withoutForeignKeys(database.pool, (connection) =>
      addPurchase(connection, organizationId, { customer_id: foreign }),
    );
    const all =
      `${organization} (Livraria Ipê) with its API keys (1), customers (1), purchases (2) ` +
      'and everything else that belongs to it';
    const refused = await execute('organizations', ['delete', organization]);
    expect(refused.code).toBe(1);
    expect(refused.lines).toEqual([
      `Nothing is deleted. With --yes, this command deletes ${all}. This cannot be undone.`,
    ]);
    expect((await api.get('/v1/purchases', secret)).json().data).toHaveLength(2);

    const deleted = await execute('organizations', ['delete', organization, '--yes']);
    expect(deleted).toMatchObject({ code: 0, lines: [`Deleting ${all}.`, expect.anything()] });
    expect((await api.get('/v1/purchases', secret)).statusCode).toBe(401);
    expect((await api.get('/v1/me', otherShop.secret)).statusCode).toBe(200);
    const left = 'select from purchases where organization_id = $1';
    expect((await database.pool.query(left, [organizationId])).rowCount).toBe(0);
    const kept = 'select from customers where id = $1';
    expect((await database.pool.query(kept, [foreign])).rowCount).toBe(1);
    const again = await execute('organizations', ['delete', organization, '--yes']);
    expect(again.code).toBe(1);
    expect(again.output).toContain(`There is no organization ${organization}.`);
  });

  it('list keys in 80 columns if names are long', async ({ database, execute }) => {
    const name = 'Comércio de Café e Açaí da Conceição & Filhos Ltda. – São Paulo';
    const organizationId = await addOrganization(database.pool, name);
    await addKey(database.pool, organizationId, { name, scopes: ['read', 'write'] });
    const { lines, output } = await execute('keys', ['list']);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(output).toContain(encodeId('organization', organizationId));
    expect(lines.filter((line) => line.includes('Comércio de Café e Aç…'))).toHaveLength(1);
  });

  const create = ['create', '--organization', 'org_x', '--name', 'BI'];
  it.for([
    [2, 'keys', ['create', '--name', 'BI']],
    [2, 'keys', [...create, '--expires-in', 'soon']],
    [1, 'keys', create],
    [1, 'keys', ['roll', 'bak_x', '--overlap', '1h']],
    [2, 'keys', ['roll', 'bak_x', '--overlap', '31d']],
    [2, 'organizations', ['create', '--name', ' ']],
  ] as const)('exit with %i after `%s %j`', async ([code, command, args], { execute }) => {
    const ended = await execute(command, args);
    expect(ended.code).toBe(code);
    expect(ended.output).not.toMatch(/^\s+at /m);
  });

  it('migrate a second time without a change', async ({ execute }) => {
    const again = await execute('migrate', []);
    expect(again).toMatchObject({ code: 0, output: 'Already up to date.\n' });
  });

  it('report in one line that Postgres cancelled their statement', async ({
    database,
    execute,
  }) => {
    await withConnection(database.pool, async (connection) => {
      await connection.query('begin');
      await connection.query('select pg_advisory_xact_lock($1)', [migrationLock]);
      const migrating = execute('migrate', []);
      const cancel = `select pg_cancel_backend(pid) from pg_stat_activity
        where application_name = 'crm-data-service migrate' and wait_event_type = 'Lock'
          and datname = current_database()`;
      while ((await database.pool.query(cancel)).rowCount === 0) await sleep(20);
      expect(await migrating).toMatchObject({
        code: 1,
        output:
          'Postgres refused: canceling statement due to user request (SQLSTATE 57014). ' +
          'Run the command again. If it fails again, read the log of Postgres.\n',
      });
      await connection.query('rollback');
    });
  });

  it('seed demo data and print a working key for each organization', { tags: ['slow'] }, async ({
    api,
    execute,
  }) => {
    const args = ['--organizations', '2', '--customers', '20', '--purchases', '50', '--seed', '3'];
    const seeded = await execute('seed', [...args, '--until', '2026-01-31']);
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
