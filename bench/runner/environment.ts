import { execFileSync } from 'node:child_process';
import { arch, availableParallelism, cpus, platform, totalmem } from 'node:os';
import { version as duckdbVersion } from '@duckdb/node-api';
import { packageFile } from '../../src/process/package-files.ts';

/** The machine and the versions of a measurement. */
export type Environment = {
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  /** Null without a git repository or the git program. */
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

export function readEnvironment(postgresVersion: string): Environment {
  const commit = git('rev-parse', 'HEAD');
  return {
    startedAt: new Date().toISOString(),
    commit,
    isChanged: commit !== null && git('status', '--porcelain') !== '',
    machine: {
      processor: cpus()[0]?.model.trim() || arch(),
      cores: availableParallelism(),
      memoryBytes: totalmem(),
      platform: `${platform()} ${arch()}`,
    },
    versions: {
      node: process.version,
      duckdb: duckdbVersion(),
      postgres: postgresVersion,
    },
  };
}

function git(...args: string[]): string | null {
  try {
    return execFileSync('git', args, { cwd: packageFile('.'), stdio: 'pipe' })
      .toString()
      .trim();
  } catch {
    return null;
  }
}
