import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/embedded-postgres/cluster.ts';
import { createPool, type Database } from '../../src/postgres/pool.ts';
import type { Scope } from '../runner/scope.ts';
import type { Bench } from '../runner/suite.ts';

const settings = { shared_buffers: '1GB', max_wal_size: '4GB' };

export async function startServer(scope: Scope): Promise<EmbeddedPostgres> {
  const directory = await scratchDirectory(scope);
  const starting = startEmbeddedPostgres({ directory, database: 'postgres', settings });
  scope.afterwards(async () => {
    const server = await starting.catch(() => null);
    if (server === null) return;
    await server.stop();
    await rm(server.home, { recursive: true, force: true });
  });
  return starting;
}

/** A folder of the scope's own, under the system's one for temporary files. */
export async function scratchDirectory(scope: Scope): Promise<string> {
  const making = mkdtemp(join(tmpdir(), 'crm-data-service-bench-'));
  scope.afterwards(async () => rm(await making, { recursive: true, force: true }));
  return making;
}

export type BenchmarkDatabase = {
  readonly url: string;
  /**
   * For the suite's own writers. Their commits do not wait for the disk: that would
   * measure the disk, and one which they share here with the worker's files.
   */
  readonly pool: Database;
};

/** An empty database for one suite; gone with it. */
export async function createDatabase(
  { server, scope }: Bench,
  locale?: string,
): Promise<BenchmarkDatabase> {
  const url = new URL(server.url);
  url.pathname = '/bench';
  const poolUrl = new URL(url);
  poolUrl.searchParams.set('options', '-c synchronous_commit=off');
  const pool = createPool(poolUrl.href, { max: 32, applicationName: 'bench' });
  scope.afterwards(async () => {
    // At once: the pool waits for its statements, and dropping ends those.
    await Promise.all([
      pool.end(),
      administer(server.url, 'drop database if exists bench with (force)'),
    ]);
  });
  const ofLocale =
    locale === undefined ? '' : ` locale ${pg.escapeLiteral(locale)} template template0`;
  await administer(server.url, `create database bench${ofLocale}`);
  return { url: url.href, pool };
}

async function administer(serverUrl: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: serverUrl });
  client.on('error', () => {});
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
