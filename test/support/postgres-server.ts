import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../src/embedded-postgres/cluster.ts';
import { createPool, type Database } from '../../src/postgres/connection/pool.ts';
import { migrate } from '../../src/postgres/schema/migrate.ts';
import { openLeakSearch, requireNoLeaks } from './logged-lines.ts';
import { childrenOf } from './processes.ts';

/** A Postgres server that a test may kill. Unlike the server of the test run, it uses fsync. */
export type PostgresServer = {
  readonly url: string;
  readonly pool: Database;
  /** Kills every process of the server, as a power failure does, and starts it again. */
  crash(): Promise<void>;
  /** Restarts the server as `pg_ctl restart -m immediate` does. */
  restartImmediately(): Promise<void>;
  /**
   * Stops the server, copies its data folder and starts it again. The returned function restores
   * the copy, like a backup of the file system, or makes it a standby that has received nothing since.
   */
  coldCopy(): Promise<(as?: 'primary' | 'standby') => Promise<void>>;
  /** Stops every process of the server with SIGSTOP, until the returned function is called. */
  freeze(): () => void;
  /** Kills the process of one connection. The server then restarts all its processes. */
  killOneBackend(): Promise<void>;
  /** Fails as `TestDatabase.drop` does. */
  remove(): Promise<void>;
};

const settings = {
  max_prepared_transactions: '10',
  max_connections: '60',
  // Commits that do not wait for the disk stay in memory longer, so a crash loses more of them.
  wal_writer_delay: '2s',
  autovacuum_naptime: '5s',
};

export async function startPostgresServer(
  directory: string,
  moreSettings: Record<string, string> = {},
): Promise<PostgresServer> {
  const start = async (port = 0): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({
      directory: join(directory, 'postgres'),
      database: 'chaos',
      settings: { ...settings, ...moreSettings },
      preferredPort: port,
    });
  let server = await start();
  const { url } = server;
  const startAgain = async (attempts = 20): Promise<void> => {
    try {
      server = await start(Number(new URL(url).port));
    } catch (error) {
      // A process of the killed server may still run.
      if (attempts === 0) throw error;
      await sleep(250);
      return startAgain(attempts - 1);
    }
    if (server.url !== url) throw new Error('another process uses the port of Postgres');
  };
  const endBy = async (end: (postmaster: number) => void) => {
    const exited = once(server.process, 'exit');
    end(server.process.pid as number);
    await exited;
  };
  await migrate(url);
  const pool = createPool(url, { max: 20, applicationName: 'chaos', onError: () => {} });
  const search = openLeakSearch(pool, url);
  return {
    url,
    pool,
    async crash() {
      await endBy((postmaster) => {
        // Children that survive would keep the shared memory.
        for (const id of [postmaster, ...childrenOf(postmaster)]) kill(id, 'SIGKILL');
      });
      await startAgain();
    },
    async restartImmediately() {
      await endBy((postmaster) => kill(postmaster, 'SIGQUIT'));
      await startAgain();
    },
    async coldCopy() {
      const whileStopped = async (work: (cluster: string) => void) => {
        const cluster = join(server.home, 'cluster');
        await server.stop();
        work(cluster);
        await startAgain();
      };
      await whileStopped((cluster) => copyFolder(cluster, `${cluster}.copy`));
      return (as = 'primary') =>
        whileStopped((cluster) => {
          rmSync(cluster, { recursive: true });
          copyFolder(`${cluster}.copy`, cluster);
          if (as === 'standby') writeFileSync(join(cluster, 'standby.signal'), '');
        });
    },
    freeze() {
      const postmaster = server.process.pid as number;
      // The postmaster first, so that it starts no further process.
      kill(postmaster, 'SIGSTOP');
      const frozen = [postmaster, ...childrenOf(postmaster)];
      for (const id of frozen) kill(id, 'SIGSTOP');
      return () => {
        for (const id of frozen) kill(id, 'SIGCONT');
      };
    },
    async killOneBackend() {
      const { rows } = await pool.query<{ pid: number }>(
        `select pid from pg_stat_activity
         where backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 1`,
      );
      if (rows[0] !== undefined) kill(rows[0].pid, 'SIGKILL');
    },
    async remove() {
      await requireNoLeaks(search).finally(async () => {
        await pool.end();
        await server.stop();
        await rm(server.home, { recursive: true, force: true });
      });
    },
  };
}

/** Keeps the owner, because Postgres starts only if the server process owns the folder. */
function copyFolder(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

/** The process may have ended. */
function kill(id: number, signal: NodeJS.Signals): void {
  try {
    process.kill(id, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
