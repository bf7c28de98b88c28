import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/embedded-postgres/cluster.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
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

/** A temporary folder of the scope. */
export async function scratchDirectory(scope: Scope): Promise<string> {
  const making = mkdtemp(join(tmpdir(), 'crm-data-service-bench-'));
  scope.afterwards(async () => rm(await making, { recursive: true, force: true }));
  return making;
}

export type BenchmarkDatabase = {
  readonly url: string;
  /**
   * For the suite's own writers. Their commits do not wait for the disk: that would measure the
   * disk, which they share here with the worker's files.
   */
  readonly pool: Database;
};

/** An empty database for one suite. The scope drops it. */
export async function createDatabase({
  server,
  scope,
}: Pick<Bench, 'server' | 'scope'>): Promise<BenchmarkDatabase> {
  const url = new URL(server.url);
  url.pathname = '/bench';
  const pool = connect(url.href, { synchronous_commit: 'off' });
  scope.afterwards(async () => {
    // At the same time: the pool waits for its statements, and dropping ends those.
    await Promise.all([
      pool.end(),
      queryOnce(server.url, 'drop database if exists bench with (force)'),
    ]);
  });
  await queryOnce(server.url, 'create database bench');
  return { url: url.href, pool };
}

type SessionSettings = Readonly<Record<string, string>>;

/** A connection string whose sessions have these settings of Postgres. */
export function withSettings(databaseUrl: string, settings: SessionSettings): string {
  const url = new URL(databaseUrl);
  const options = Object.entries(settings).map(([name, value]) => `-c ${name}=${value}`);
  url.searchParams.set('options', options.join(' '));
  return url.href;
}

/** A pool whose sessions have these settings of Postgres. */
export const connect = (url: string, settings: SessionSettings): Database =>
  createPool(withSettings(url, settings), { max: 32, applicationName: 'bench' });

/** Runs a statement on a connection of its own. */
export async function queryOnce(serverUrl: string, statement: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: serverUrl });
  client.on('error', () => {});
  await client.connect();
  try {
    return await client.query(statement);
  } finally {
    await client.end();
  }
}
