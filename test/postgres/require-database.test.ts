import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { describe, expect, inject } from 'vitest';
import { createPool } from '../../src/postgres/connection/pool.ts';
import {
  type DatabaseNeeds,
  requireDatabase,
} from '../../src/postgres/connection/require-database.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import {
  apiRights,
  migrationsFolder,
  schemaVersion,
  versionMarker,
} from '../../src/postgres/schema/schema.ts';
import { test } from '../support/fixtures.ts';
import { administer, databaseUrl, type TestDatabase } from '../support/postgres.ts';
import type { PostgresProxy } from '../support/postgres-proxy.ts';
import { createReaderRole, type TestRole } from '../support/role.ts';
import { createTransactionPool } from '../support/transaction-pool.ts';

const anyServer: DatabaseNeeds = { isPrimary: false };
const api: DatabaseNeeds = { isPrimary: false, rights: apiRights('memory') };

const serverUrl = inject('postgresUrl');

const it = test
  .extend('reader', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const reader = await createReaderRole(database);
    onCleanup(reader.drop);
    return reader;
  })
  /** The URL of an empty database, for each test. */
  // biome-ignore lint/correctness/noEmptyPattern: Vitest reads the names of fixtures from this pattern.
  .extend('newDatabase', async ({}, { onCleanup }) => {
    const name = `own_${randomBytes(6).toString('hex')}`;
    onCleanup(() => administer(serverUrl, `drop database if exists ${name} with (force)`));
    return {
      url: databaseUrl(serverUrl, name),
      create: (options = '') => administer(serverUrl, `create database ${name} ${options}`),
    };
  });

const accepted = 'the database was accepted';

/** The error of `requireDatabase` without a wait, or `accepted`. */
async function refusal(url: string, needs = anyServer): Promise<string> {
  const reports: string[] = [];
  const report = (line: string) => reports.push(line);
  const message = await requireDatabase(url, needs, { forMs: 0, report }).then(
    () => accepted,
    (error) => error.message,
  );
  expect(reports).toEqual([]);
  expect(message).not.toMatch(/\n|secret/);
  return message;
}

type Server = { database: TestDatabase; proxy: PostgresProxy; reader: TestRole };
const withUrl = (text: string, changes: Partial<URL>) => Object.assign(new URL(text), changes).href;
const alterDatabase = ({ database }: Server, change: string) => {
  const name = new URL(database.url).pathname.slice(1);
  return administer(serverUrl, `alter database ${name} ${change}`);
};
const alterRole = ({ reader }: Server, change: string) =>
  administer(serverUrl, `alter role ${reader.name} ${change}`);

describe('requireDatabase', () => {
  it.for([
    [
      'refuses TCP connections',
      async ({ proxy }: Server) => {
        proxy.mode = 'refuse';
      },
      async ({ proxy }: Server) => {
        proxy.mode = 'forward';
      },
      /The connection to Postgres failed/,
    ],
    [
      'has no connection left',
      (server: Server) => alterRole(server, 'connection limit 0'),
      (server: Server) => alterRole(server, 'connection limit -1'),
      /too many connections for role/,
    ],
    [
      'refuses connections to the database',
      (server: Server) => alterDatabase(server, 'with allow_connections false'),
      (server: Server) => alterDatabase(server, 'with allow_connections true'),
      /not currently accepting connections/,
    ],
    [
      'refuses logins of the role',
      (server: Server) => alterRole(server, 'nologin'),
      (server: Server) => alterRole(server, 'login'),
      /is not permitted to log in/,
    ],
  ] as const)(
    'waits while Postgres %s, and reports the wait once',
    { tags: ['slow'] },
    async ([_what, begin, end, line], { database, proxy, reader }) => {
      const server = { database, proxy, reader };
      await begin(server);
      const reported: string[] = [];
      const usable = requireDatabase(
        withUrl(reader.url, { host: new URL(proxy.url).host }),
        anyServer,
        {
          forMs: 50_000,
          report: (line) => {
            reported.push(line);
            void end(server);
          },
        },
      );
      expect(await usable).toBe(true);
      expect(reported).toEqual([expect.stringMatching(line)]);
      expect(reported[0]).toMatch(/^Cannot use the database test_\w+ at 127\.0\.0\.1:\d+: /);
      expect(reported[0]).toMatch(/ Trying again for 50 s\.$/);
    },
  );

  it('rejects with one line after the time limit', { tags: ['slow'] }, async ({ proxy }) => {
    proxy.mode = 'refuse';
    const reported: string[] = [];
    const wait = { forMs: 1_500, report: (line: string) => reported.push(line) };
    await expect(requireDatabase(proxy.url, anyServer, wait)).rejects.toThrow(
      /^Cannot use the database .* Check that it runs and can be reached\. Gave up after 2 s\.$/,
    );
    expect(reported).toHaveLength(1);
    expect(proxy.unforwarded).toBeGreaterThan(1);
  });

  it('stops waiting if the signal is aborted', async ({ proxy }) => {
    proxy.mode = 'refuse';
    const stopped = new AbortController();
    const wait = { forMs: 3_600_000, report: () => stopped.abort(), stopped: stopped.signal };
    expect(await requireDatabase(proxy.url, anyServer, wait)).toBe(false);
  });

  it.for([
    [
      'the password',
      ({ reader }: Server) => withUrl(reader.url, { password: 'wrong' }),
      /Correct the user and the password in DATABASE_URL/,
    ],
    [
      'the name of the database',
      ({ database }: Server) => database.url.replace(/\/test_/, '/no_'),
      /does not exist.*Create it: `create database/,
    ],
    [
      'sslmode, if Postgres offers no TLS',
      ({ database }: Server) => `${database.url}?sslmode=verify-full`,
      /asks for TLS, which this Postgres does not offer/,
    ],
    [
      'the file of a certificate authority',
      ({ database }: Server) => `${database.url}?sslrootcert=/no/such/ca.pem`,
      /names the file \/no\/such\/ca\.pem, which cannot be read: ENOENT/,
    ],
    [
      'the search path',
      ({ database }: Server) => `${database.url}?options=-c%20search_path=nowhere`,
      /The table api_keys is not in the search path\. Run `npx crm-data-service migrate`/,
    ],
  ] as const)(
    'names what to correct in DATABASE_URL, without a wait: %s',
    async ([_what, url, line], { database, proxy, reader }) => {
      expect(await refusal(url({ database, proxy, reader }), api)).toMatch(line);
    },
  );

  it('names the missing rights and the statement that grants them', async ({
    database,
    reader,
  }) => {
    await database.pool.query(`revoke select on purchases, tags from ${reader.name}`);
    expect(await refusal(reader.url, api)).toMatch(
      /lacks rights on purchases, tags\. As the owner: `grant select on purchases, tags to role_\w+;`$/,
    );
    await database.pool.query(`grant select on purchases, tags to ${reader.name}`);
    const wait = { forMs: 0, report: () => {} };
    expect(await requireDatabase(reader.url, api, wait)).toBe(true);
  });

  it.for([
    [schemaVersion + 1, /Install the release that migrated the schema, or a later one/],
    [schemaVersion - 1, /Run `npx crm-data-service migrate`/],
  ] as const)('rejects a schema of version %i', async ([version, line], { database }) => {
    const change = (from: number, to: number) =>
      database.pool.query('update schema_migrations set version = $2 where version = $1', [
        from,
        to,
      ]);
    const mark = (from: number, to: number) =>
      database.pool.query(`alter type ${versionMarker}${from} rename to ${versionMarker}${to}`);
    await database.pool.query('create table saved_migrations as select * from schema_migrations');
    await database.pool.query('delete from schema_migrations where version > $1', [version]);
    await mark(schemaVersion, version);
    if (version > schemaVersion) await change(schemaVersion, version);
    try {
      expect(await refusal(database.url, api)).toMatch(line);
      const toMigrate = refusal(database.url, { ...anyServer, isToMigrate: true });
      expect(await toMigrate).toMatch(version > schemaVersion ? line : accepted);
    } finally {
      await database.pool.query('truncate schema_migrations');
      await database.pool.query('insert into schema_migrations select * from saved_migrations');
      await database.pool.query('drop table saved_migrations');
      await mark(version, schemaVersion);
    }
  });

  it('rejects a schema over which the dump of an earlier one was restored', async ({
    database: { pool, url },
  }) => {
    // `pg_restore --clean` replaces the table, and leaves types that the dump does not have.
    await pool.query('create table saved_migrations as select * from schema_migrations');
    await pool.query('delete from schema_migrations where version = $1', [schemaVersion]);
    try {
      for (const needs of [api, { ...anyServer, isToMigrate: true as const }]) {
        expect(await refusal(url, needs)).toMatch(
          new RegExp(
            `migrations up to ${schemaVersion - 1}, and parts of version ${schemaVersion}, .*` +
              'into an empty database: docs/deployment/README.md, section "Go back to the release before"',
          ),
        );
      }
    } finally {
      await pool.query('truncate schema_migrations');
      await pool.query('insert into schema_migrations select * from saved_migrations');
      await pool.query('drop table saved_migrations');
    }
  });

  it('rejects a schema with other migrations, of any number', async ({
    database: { pool, url },
  }) => {
    const rename = (from: string, to: string) =>
      pool.query('update schema_migrations set name = $2 where name = $1', [from, to]);
    await rename('organizations', 'resources');
    await pool.query(`insert into schema_migrations (version, name, md5) values (900, 'old', '')`);
    try {
      for (const count of [900, 1]) {
        await pool.query('delete from schema_migrations where version > 6 and version > $1', [
          count,
        ]);
        for (const needs of [api, { ...anyServer, isToMigrate: true as const }]) {
          expect(await refusal(url, needs)).toMatch(
            /has other migrations than this release.*section "Copy into a new database"/,
          );
        }
      }
    } finally {
      await pool.query('delete from schema_migrations where version = 900');
      await rename('resources', 'organizations');
    }
  });

  it('rejects a connection pool in transaction mode', async ({ database }) => {
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

  it('rejects a database with an encoding other than UTF-8', async ({ newDatabase }) => {
    await newDatabase.create(`encoding 'LATIN1' locale 'C' template template0`);
    expect(await refusal(newDatabase.url)).toMatch(/Its encoding is LATIN1, and must be UTF8/);
  });

  it('rejects a database without a schema, except for the migration', async ({ newDatabase }) => {
    await newDatabase.create();
    expect(await refusal(newDatabase.url, api)).toMatch(
      /The table api_keys is not in the schema public/,
    );
    expect(await refusal(newDatabase.url, { ...anyServer, isToMigrate: true })).toBe(accepted);
  });
});

describe('migrate', { tags: ['slow'] }, () => {
  it.for([
    ['a table', 'create table customers (id bigint)', /relation "customers" already exists/],
    ['a type', 'create type instant as (at timestamptz)', /type "instant" already exists/],
    [
      'a table of migrations',
      'create table schema_migrations (version varchar)',
      /The table schema_migrations in the schema public belongs to another program/,
    ],
  ] as const)(
    'changes nothing in a schema that has %s of the same name',
    async ([_what, statement, line], { newDatabase: { url, create }, onTestFinished }) => {
      await create();
      const pool = createPool(url, { max: 1, applicationName: 'test' });
      onTestFinished(() => pool.end());
      await pool.query(statement);
      await expect(migrate(url)).rejects.toThrow(line);
      await expect(migrate(url)).rejects.toThrow(/Use a database or a schema of its own/);
      const { rows } = await pool.query(
        `select count(*)::int as tables from pg_class
         where relnamespace = 'public'::regnamespace and relkind = 'r'`,
      );
      expect(rows[0].tables).toBe(statement.startsWith('create table') ? 1 : 0);
      await pool.query('create schema crm');
      const { applied } = await migrate(`${url}?options=-c%20search_path=crm,public`);
      expect(applied).toHaveLength(readdirSync(migrationsFolder).length);
    },
  );
});
