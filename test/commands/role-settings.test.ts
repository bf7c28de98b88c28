import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { describe, expect, inject } from 'vitest';
import { test } from '../support/fixtures.ts';
import { administer, databaseUrl } from '../support/postgres.ts';
import { checkedFetch } from '../support/sockets.ts';

/** Each would end work, or change what Postgres reads or writes as text. */
const settings = [
  "statement_timeout = '100ms'",
  "lock_timeout = '1ms'",
  "idle_in_transaction_session_timeout = '1ms'",
  "idle_session_timeout = '500ms'",
  "transaction_timeout = '100ms'",
  'default_transaction_isolation = serializable',
  'default_transaction_deferrable = on',
  "DateStyle = 'German, DMY'",
  'IntervalStyle = sql_standard',
  "TimeZone = 'Asia/Kathmandu'",
  'extra_float_digits = -15',
  'bytea_output = escape',
  'client_encoding = LATIN1',
  'standard_conforming_strings = off',
  'quote_all_identifiers = on',
  'array_nulls = off',
  'gin_fuzzy_search_limit = 1',
  'synchronous_commit = off',
  'row_security = on',
  'enable_hashjoin = off',
];

const it = test
  /** The URL of an empty database whose owner has all of `settings`. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('url', { scope: 'file' }, async ({}, { onCleanup }) => {
    const name = `owner_${randomBytes(6).toString('hex')}`;
    const serverUrl = inject('postgresUrl');
    const execute = (statement: string) => administer(serverUrl, statement);
    await execute(`create role ${name} login password 'secret'`);
    for (const setting of settings) await execute(`alter role ${name} set ${setting}`);
    await execute(`create database ${name} owner ${name}`);
    onCleanup(async () => {
      await execute(`drop database ${name} with (force)`);
      await execute(`drop role ${name}`);
    });
    return Object.assign(new URL(databaseUrl(serverUrl, name)), {
      username: name,
      password: 'secret',
    }).href;
  });

describe('with a role that has other settings', { tags: ['slow'] }, () => {
  it('commands, worker and API work as with any other role', async ({ execute, program, url }) => {
    const run = async (command: Parameters<typeof execute>[0], ...args: string[]) => {
      const ended = await execute(command, args, { DATABASE_URL: url });
      expect(ended.code, ended.output).toBe(0);
      return ended.output;
    };
    expect(await run('migrate')).toMatch(/^Applied 001/);
    expect(await run('migrate')).toBe('Already up to date.\n');
    const seeded = await run(
      'seed',
      '--organizations',
      '1',
      '--customers',
      '50',
      '--purchases',
      '60000',
    );
    const [, organization = '', secret = ''] = /^(org_\w+) {2}(crm_live_\w+)/m.exec(seeded) ?? [];
    expect(await run('keys', 'list', '--organization', organization)).toMatch(
      /never expires +20\d\d-/,
    );
    expect(await run('organizations', 'list')).toContain(organization);

    const api = program('src/commands/api.ts', [], { DATABASE_URL: url });
    const [, address] = await api.printed(/Listening on (http[^\s"]+)/);
    const get = async (path: string) => {
      const headers = { Authorization: `Bearer ${secret}` };
      const response = await checkedFetch(`${address}/v1${path}`, { headers });
      expect(response.status, path).toBe(200);
      return response.text();
    };
    const count = async () => JSON.parse(await get('/purchases/stats')).purchase_count;
    const customers = JSON.parse(await get('/customers?q=a&limit=3')).data;
    expect(customers).toHaveLength(3);
    expect(customers[0].created_at).toMatch(/^20\d\d-\d\d-\d\dT[\d:.]+Z$/);
    const withoutFiles = await get('/purchases/export?format=csv');
    expect(withoutFiles.trim().split('\n')).toHaveLength(60_001);

    const worker = program('sync/main.ts', ['run'], { DATABASE_URL: url });
    await worker.printed(/"built"/);
    await execSql(url, 'delete from purchases where id = (select min(id) from purchases)');
    while ((await count()) !== 59_999) await get('/me');
    expect(await run('sync', 'verify')).toMatch(/equal/);
    expect(await run('sync', 'status', '--check')).toBeDefined();
    const withFiles = await get('/purchases/export?format=csv');
    expect(withFiles.trim().split('\n')).toHaveLength(60_000);
    expect(await worker.end('SIGTERM')).toBe(0);
    expect(await api.end('SIGTERM')).toBe(0);
    expect(worker.output() + api.output()).not.toMatch(/timeout|"level":[56]0/);
  });
});

async function execSql(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(`set statement_timeout = 0; set transaction_timeout = 0`);
  await client.query(statement);
  await client.end();
}
