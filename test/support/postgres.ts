import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { inject } from 'vitest';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { openLeakSearch, requireNoLeaks } from './logged-lines.ts';

export type TestDatabase = {
  readonly url: string;
  readonly pool: Database;
  /** Drops the database, which ends all connections, and creates an empty one of the same name. */
  recreate(): Promise<void>;
  /** Fails if a line of a log, or a metric, contains a secret or a text of the database's rows. */
  drop(): Promise<void>;
};

/** Creates a migrated, empty database on the Postgres server of the test run. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const serverUrl = inject('postgresUrl');
  const name = `test_${randomBytes(6).toString('hex')}`;
  await administer(serverUrl, `create database ${name} template ${inject('templateDatabase')}`);
  const url = databaseUrl(serverUrl, name);
  const pool = createPool(url, { max: 10, applicationName: 'test' });
  const search = openLeakSearch(pool, url);
  return {
    url,
    pool,
    async recreate() {
      await administer(serverUrl, `drop database ${name} with (force)`);
      await administer(serverUrl, `create database ${name} template ${inject('templateDatabase')}`);
    },
    async drop() {
      await requireNoLeaks(search).finally(async () => {
        await pool.end();
        await administer(serverUrl, `drop database if exists ${name} with (force)`);
      });
    },
  };
}

/** The URL of another database of the same server. */
export function databaseUrl(serverUrl: string, name: string): string {
  const url = new URL(serverUrl);
  url.pathname = `/${name}`;
  return url.href;
}

/** Runs one statement as the superuser, outside test databases. */
export async function administer(serverUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string;
    templateDatabase: string;
  }
}
