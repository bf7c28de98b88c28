import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it } from 'vitest';
import { migrate } from '../../src/postgres/migrate.ts';
import { createPool } from '../../src/postgres/pool.ts';
import { type DatabaseNeeds, requireDatabase } from '../../src/postgres/require-database.ts';
import { apiRights, schemaVersion } from '../../src/postgres/schema.ts';
import {
  administer,
  createTestDatabase,
  databaseUrl,
  type TestDatabase,
} from '../support/postgres.ts';
import { createPostgresProxy, type PostgresProxy } from '../support/postgres-proxy.ts';
import { createReaderRole, type TestRole } from '../support/role.ts';
import { createTransactionPool } from '../support/transaction-pool.ts';

const anyServer: DatabaseNeeds = { isPrimary: false };
const api: DatabaseNeeds = { isPrimary: false, rights: apiRights('memory') };

describe('a process that starts', { timeout: 60_000 }, () => {
  let database: TestDatabase;
  let proxy: PostgresProxy;
  let reader: TestRole;
  let role: string;
  const serverUrl = inject('postgresUrl');
  const name = () => new URL(database.url).pathname.slice(1);
  const asRole = (changes: { password?: string; host?: string } = {}) =>
    Object.assign(new URL(reader.url), changes).href;
  beforeAll(async () => {
    database = await createTestDatabase();
    proxy = await createPostgresProxy(database.url);
    reader = await createReaderRole(database);
    role = reader.name;
  });
  afterEach(() => {
    proxy.mode = 'pass';
  });
  afterAll(async () => {
    await proxy.close();
    await reader.drop();
    await database.drop();
  });

  const refusal = async (url: string, needs = anyServer): Promise<string> => {
    const waited: string[] = [];
    const report = (line: string) => waited.push(line);
    const ended = requireDatabase(url, needs, { forMs: 0, report });
    const { message } = await ended.then(
      () => new Error('it was let in'),
      (error) => error,
    );
    expect(waited).toEqual([]);
    expect(message).not.toMatch(/\n|secret/);
    return message;
  };

  it.each([
    [
      'is down',
      () => {
        proxy.mode = 'refuse';
      },
      () => {
        proxy.mode = 'pass';
      },
      /The connection to Postgres failed/,
    ],
    [
      'has no connection left',
      () => administer(serverUrl, `alter role ${role} connection limit 0`),
      () => administer(serverUrl, `alter role ${role} connection limit -1`),
      /too many connections for role/,
    ],
    [
      'refuses connections to the database',
      () => administer(serverUrl, `alter database ${name()} with allow_connections false`),
      () => administer(serverUrl, `alter database ${name()} with allow_connections true`),
      /not currently accepting connections/,
    ],
    [
      'refuses logins of the role',
      () => administer(serverUrl, `alter role ${role} nologin`),
      () => administer(serverUrl, `alter role ${role} login`),
      /is not permitted to log in/,
    ],
  ])('waits while Postgres %s, and reports that once', async (_what, begin, end, line) => {
    await begin();
    const reported: string[] = [];
    const usable = requireDatabase(asRole({ host: new URL(proxy.url).host }), anyServer, {
      forMs: 50_000,
      report: (line) => {
        reported.push(line);
        void end();
      },
    });
    expect(await usable).toBe(true);
    expect(reported).toEqual([expect.stringMatching(line)]);
    expect(reported[0]).toMatch(/^Cannot use the database test_\w+ at 127\.0\.0\.1:\d+: /);
    expect(reported[0]).toMatch(/ Trying again for 50 s\.$/);
  });

  it('gives up in one line after the time that it may wait', async () => {
    proxy.mode = 'refuse';
    const reported: string[] = [];
    const wait = { forMs: 1_500, report: (line: string) => reported.push(line) };
    await expect(requireDatabase(proxy.url, anyServer, wait)).rejects.toThrow(
      /^Cannot use the database .* Check that it runs and can be reached\. Gave up after 2 s\.$/,
    );
    expect(reported).toHaveLength(1);
    expect(proxy.heldBack).toBeGreaterThan(1);
  });

  it('stops waiting when it is told to end', async () => {
    proxy.mode = 'refuse';
    const stopped = new AbortController();
    const wait = { forMs: 3_600_000, report: () => stopped.abort(), stopped: stopped.signal };
    expect(await requireDatabase(proxy.url, anyServer, wait)).toBe(false);
  });

  it.each([
    [
      'the password',
      () => asRole({ password: 'wrong' }),
      /Correct the user and the password in DATABASE_URL/,
    ],
    [
      'the name of the database',
      () => database.url.replace(/\/test_/, '/no_'),
      /does not exist.*Create it: `create database/,
    ],
    [
      'sslmode, where Postgres offers no TLS',
      () => `${database.url}?sslmode=verify-full`,
      /asks for TLS, which this Postgres does not offer/,
    ],
    [
      'the file of a certificate authority',
      () => `${database.url}?sslrootcert=/no/such/ca.pem`,
      /names the file \/no\/such\/ca\.pem, which cannot be read: ENOENT/,
    ],
    [
      'the search path',
      () => `${database.url}?options=-c%20search_path=nowhere`,
      /The table api_keys is not in the search path\. Run `npm run migrate`/,
    ],
  ])('says at once what to correct in DATABASE_URL: %s', async (_what, url, line) => {
    expect(await refusal(url(), api)).toMatch(line);
  });

  it('says which rights are missing, and how to grant them', async () => {
    await database.pool.query(`revoke select on purchases, tags from ${role}`);
    expect(await refusal(asRole(), api)).toMatch(
      /lacks rights on purchases, tags\. As the owner: `grant select on purchases, tags to role_\w+;`$/,
    );
    await database.pool.query(`grant select on purchases, tags to ${role}`);
    const wait = { forMs: 0, report: () => {} };
    expect(await requireDatabase(asRole(), api, wait)).toBe(true);
  });

  it.each([
    [schemaVersion + 1, /Install the release that migrated the schema, or a later one/],
    [schemaVersion - 1, /Run `npm run migrate`/],
  ])('refuses a schema of version %i', async (version, line) => {
    const change = (from: number, to: number) =>
      database.pool.query('update schema_migrations set version = $2 where version = $1', [
        from,
        to,
      ]);
    await database.pool.query('create table kept as select * from schema_migrations');
    await database.pool.query('delete from schema_migrations where version > $1', [version]);
    if (version > schemaVersion) await change(schemaVersion, version);
    try {
      expect(await refusal(database.url, api)).toMatch(line);
      const toMigrate = refusal(database.url, { ...anyServer, isToMigrate: true });
      expect(await toMigrate).toMatch(version > schemaVersion ? line : /it was let in/);
    } finally {
      await database.pool.query('truncate schema_migrations');
      await database.pool.query('insert into schema_migrations select * from kept');
      await database.pool.query('drop table kept');
    }
  });

  it('refuses a connection pool in transaction mode', async () => {
    for (const size of [1, 3]) {
      const pool = await createTransactionPool(database.url, size);
      try {
        expect(await refusal(pool.url)).toMatch(
          /A connection pool in transaction mode is in between\. Name Postgres itself/,
        );
      } finally {
        await pool.close();
      }
    }
  });

  describe('on a database of its own', () => {
    const own = `own_${randomBytes(6).toString('hex')}`;
    const ownUrl = databaseUrl(serverUrl, own);
    afterEach(() => administer(serverUrl, `drop database if exists ${own} with (force)`));

    it('refuses another encoding than UTF-8', async () => {
      await administer(
        serverUrl,
        `create database ${own} encoding 'LATIN1' locale 'C' template template0`,
      );
      expect(await refusal(ownUrl)).toMatch(/Its encoding is LATIN1, and must be UTF8/);
    });

    it('refuses a database without a schema, unless it is to migrate', async () => {
      await administer(serverUrl, `create database ${own}`);
      expect(await refusal(ownUrl, api)).toMatch(/The table api_keys is not in the schema public/);
      expect(await refusal(ownUrl, { ...anyServer, isToMigrate: true })).toBe('it was let in');
    });

    it.each([
      ['a table', 'create table customers (id bigint)', /relation "customers" already exists/],
      ['a type', 'create type instant as (at timestamptz)', /type "instant" already exists/],
      [
        'a table of migrations',
        'create table schema_migrations (version varchar)',
        /The table schema_migrations in the schema public belongs to another program/,
      ],
    ])('leaves a database alone that has %s of the same name', async (_what, statement, line) => {
      await administer(serverUrl, `create database ${own}`);
      const pool = createPool(ownUrl, { max: 1, applicationName: 'test' });
      try {
        await pool.query(statement);
        await expect(migrate(ownUrl)).rejects.toThrow(line);
        await expect(migrate(ownUrl)).rejects.toThrow(/Use a database or a schema of its own/);
        const { rows } = await pool.query(
          `select count(*)::int as tables from pg_class
           where relnamespace = 'public'::regnamespace and relkind = 'r'`,
        );
        expect(rows[0].tables).toBe(statement.startsWith('create table') ? 1 : 0);
        await pool.query('create schema crm');
        const { applied } = await migrate(`${ownUrl}?options=-c%20search_path=crm,public`);
        expect(applied).toHaveLength(schemaVersion);
      } finally {
        await pool.end();
      }
    });
  });
});
