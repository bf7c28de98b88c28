import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from '../../../src/embedded-postgres/cluster.ts';
import { migrate } from '../../../src/postgres/migrate.ts';
import { createPool, type Database } from '../../../src/postgres/pool.ts';

/** A Postgres that a test may kill: its own, and one that means what it commits. */
export type PostgresOfItsOwn = {
  readonly url: string;
  readonly pool: Database;
  /** The power fails: every process is gone at once. Then it is started again. */
  crash(): Promise<void>;
  /** As `pg_ctl restart -m immediate` does it. */
  restartImmediately(): Promise<void>;
  /**
   * Copies the data folder of the stopped server. The returned function puts that copy in the
   * place of what the server holds then, as restoring a backup of the file system does.
   */
  coldCopy(): Promise<() => Promise<void>>;
  /** The system kills one process that serves a connection; the server then recovers by itself. */
  killOneBackend(): Promise<void>;
  remove(): Promise<void>;
};

const settings = {
  max_prepared_transactions: '10',
  max_connections: '60',
  // What is not committed stays in memory for long: a crash then loses more of it.
  wal_writer_delay: '2s',
  autovacuum_naptime: '5s',
};

export async function startPostgresOfItsOwn(
  directory: string,
  ownSettings: Record<string, string> = {},
): Promise<PostgresOfItsOwn> {
  const start = async (port = 0): Promise<EmbeddedPostgres> =>
    startEmbeddedPostgres({
      directory: join(directory, 'postgres'),
      database: 'chaos',
      settings: { ...settings, ...ownSettings },
      preferredPort: port,
    });
  let server = await start();
  const { url } = server;
  const startAgain = async (attempts = 20): Promise<void> => {
    try {
      server = await start(Number(new URL(url).port));
    } catch (error) {
      // What is left of the killed one may still be going.
      if (attempts === 0) throw error;
      await sleep(250);
      return startAgain(attempts - 1);
    }
    if (server.url !== url) throw new Error('the port of Postgres was taken meanwhile');
  };
  const endBy = async (end: (postmaster: number) => void) => {
    const exited = once(server.process, 'exit');
    end(server.process.pid as number);
    await exited;
  };
  await migrate(url);
  const pool = createPool(url, { max: 20, applicationName: 'chaos', onError: () => {} });
  return {
    url,
    pool,
    async crash() {
      await endBy((postmaster) => {
        // Its parts would otherwise live on for a moment, and hold what they share.
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
      return () =>
        whileStopped((cluster) => {
          rmSync(cluster, { recursive: true });
          copyFolder(`${cluster}.copy`, cluster);
        });
    },
    async killOneBackend() {
      const { rows } = await pool.query<{ pid: number }>(
        `select pid from pg_stat_activity
         where backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 1`,
      );
      if (rows[0] !== undefined) kill(rows[0].pid, 'SIGKILL');
    },
    async remove() {
      await pool.end();
      await server.stop();
      await rm(server.home, { recursive: true, force: true });
    },
  };
}

/** Keeps the owner, without whom Postgres does not start. */
function copyFolder(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true });
  const { status, stderr } = spawnSync('cp', ['-a', from, to], { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
}

function childrenOf(parent: number): number[] {
  const { stdout } = spawnSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' });
  return stdout
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
    .flatMap(([id, parentId]) => (parentId === parent && id !== undefined ? [id] : []));
}

/** The process may be gone already. */
function kill(id: number, signal: NodeJS.Signals): void {
  try {
    process.kill(id, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
