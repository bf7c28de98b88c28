import { execFile } from 'node:child_process';
import { arch, availableParallelism, cpus, loadavg, platform, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { version as duckdbVersion } from '@duckdb/node-api';
import type { EmbeddedPostgres } from '../../src/embedded-postgres/cluster.ts';
import { createPool } from '../../src/postgres/pool.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** Where figures come from: what somebody else needs to make, or to doubt, them. */
export type Environment = {
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Null where this is no git repository, or git is missing. */
  readonly commit: string | null;
  /** Whether files differ from that commit. */
  readonly isChanged: boolean;
  readonly machine: {
    readonly processor: string;
    readonly cores: number;
    readonly memoryBytes: number;
    readonly platform: string;
  };
  readonly versions: { readonly node: string; readonly duckdb: string; readonly postgres: string };
};

export async function readEnvironment(server: EmbeddedPostgres): Promise<Environment> {
  const startedAt = new Date().toISOString();
  const git = async (...args: string[]) => {
    const { stdout } = await run('git', args, { cwd: root });
    return stdout.trim();
  };
  const commit = await git('rev-parse', 'HEAD').catch(() => null);
  const changes = commit === null ? '' : await git('status', '--porcelain').catch(() => '');
  return {
    startedAt,
    commit,
    isChanged: changes !== '',
    machine: {
      processor: cpus()[0]?.model.trim() || arch(),
      cores: availableParallelism(),
      memoryBytes: totalmem(),
      platform: `${platform()} ${arch()}`,
    },
    versions: {
      node: process.version,
      duckdb: duckdbVersion(),
      postgres: await readPostgresVersion(server.url),
    },
  };
}

async function readPostgresVersion(url: string): Promise<string> {
  const pool = createPool(url, { max: 1, applicationName: 'bench' });
  try {
    const { rows } = await pool.query<{ server_version: string }>('show server_version');
    return rows[0]?.server_version ?? '';
  } finally {
    await pool.end();
  }
}

/** Others at work on the machine make figures worth less. */
export const loadAverage = (): number => loadavg()[0] ?? Number.NaN;
