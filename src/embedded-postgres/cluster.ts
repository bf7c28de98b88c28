import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, statSync } from 'node:fs';
import { chown, mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { prepareSession } from '../postgres/connection/session.ts';
import { findBinaries, type PostgresBinaries } from './binaries.ts';
import {
  EmbeddedPostgresError,
  makeDirectoryFor,
  type ServerUser,
  serverUser,
} from './server-user.ts';

export type EmbeddedPostgres = {
  /** A superuser's connection string for `database`. */
  readonly url: string;
  /** The folder of the cluster's files. It differs from `directory` if Postgres cannot use that one. */
  readonly home: string;
  readonly process: ChildProcess;
  /** Stops the server like `pg_ctl stop -m fast`. Resolves when the process has ended. */
  stop(): Promise<void>;
};

type EmbeddedPostgresOptions = {
  /** The folder for the cluster, its log and its password. */
  readonly directory: string;
  readonly database: string;
  /** Used if it is free; otherwise any free port. */
  readonly preferredPort?: number;
  /** Server settings, as `postgres -c` takes them. */
  readonly settings?: Readonly<Record<string, string>>;
};

const startTimeoutMs = 60_000;
/** Then the shutdown is immediate. */
export const stopTimeoutMs = 20_000;

/**
 * Starts the Postgres of the npm package. If there is no cluster, creates it. The server ends with
 * the process that started it, also after SIGKILL. Rejects with EmbeddedPostgresError.
 */
export async function startEmbeddedPostgres(
  options: EmbeddedPostgresOptions,
): Promise<EmbeddedPostgres> {
  if (process.platform === 'win32') {
    throw new EmbeddedPostgresError('it is not supported on Windows');
  }
  const user = serverUser();
  const home = createHome(user, resolve(options.directory));
  const binaries = await findBinaries(user, join(home, 'native'));
  const cluster = join(home, 'cluster');
  const passwordFile = join(home, 'password');
  if (!existsSync(cluster)) await initialize(binaries, user, cluster, passwordFile);
  const password = readFileSync(passwordFile, 'utf8').trim();
  const port = await freePort(options.preferredPort ?? 0);
  const logFile = join(home, 'postgres.log');
  const logStart = existsSync(logFile) ? statSync(logFile).size : 0;
  const server = launch(binaries.postgres, user, cluster, port, logFile, options.settings ?? {});
  const urlOf = (database: string) =>
    `postgres://postgres:${password}@127.0.0.1:${port}/${database}`;
  const stop = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, 'exit');
    server.stdin?.end();
    // After an immediate shutdown, the next start recovers the cluster.
    const immediately = setTimeout(() => server.kill('SIGQUIT'), stopTimeoutMs);
    await exited;
    clearTimeout(immediately);
  };
  try {
    await untilReady(urlOf('postgres'), server, logFile, logStart);
    await createDatabase(urlOf('postgres'), options.database);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: urlOf(options.database), home, process: server, stop };
}

/**
 * The folder for the cluster. Other users often cannot enter folders of root: in that case, the
 * cluster is created in /var/lib.
 */
function createHome(user: ServerUser | undefined, directory: string): string {
  if (makeDirectoryFor(user, directory)) return directory;
  const name = `crm-data-service-${createHash('sha256').update(directory).digest('hex').slice(0, 12)}`;
  const base = existsSync('/var/lib') ? '/var/lib' : tmpdir();
  const home = join(directory.startsWith(tmpdir()) ? tmpdir() : base, name);
  mkdirSync(home, { recursive: true });
  if (makeDirectoryFor(user, home)) return home;
  throw new EmbeddedPostgresError(
    `Postgres does not run as root, and the user it runs as can reach neither ${directory} nor ${home}`,
  );
}

async function initialize(
  binaries: PostgresBinaries,
  user: ServerUser | undefined,
  cluster: string,
  passwordFile: string,
): Promise<void> {
  // Renamed when it is complete, so an interrupted initdb leaves no cluster.
  const draft = `${cluster}.new`;
  await rm(draft, { recursive: true, force: true });
  await mkdir(draft, { mode: 0o700 });
  await writeFile(passwordFile, `${randomBytes(18).toString('hex')}\n`, { mode: 0o600 });
  if (user !== undefined) {
    await chown(draft, user.uid, user.gid);
    await chown(passwordFile, user.uid, user.gid);
  }
  const initdb = spawn(
    binaries.initdb,
    [
      `--pgdata=${draft}`,
      '--username=postgres',
      `--pwfile=${passwordFile}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
    ],
    { ...user, cwd: '/', env: serverEnvironment, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let errors = '';
  initdb.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const [code] = (await once(initdb, 'close')) as [number | null];
  if (code !== 0) throw new EmbeddedPostgresError(`initdb failed (${lastLine(errors)})`);
  await rename(draft, cluster);
}

const serverEnvironment = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' };

// A watcher process interrupts the server when standard input closes: in stop(), and when this
// process ends for any reason. It is not a child of the server. The server has its own session, so
// Ctrl-C in a terminal does not reach it.
const launchScript = `
  exec 3<&0
  ( ( while read -r _ <&3; do :; done; kill -INT $$ 2>/dev/null ) >/dev/null 2>&1 & )
  exec "$@" <&- 3<&-
`;

function launch(
  postgres: string,
  user: ServerUser | undefined,
  cluster: string,
  port: number,
  logFile: string,
  settings: Readonly<Record<string, string>>,
): ChildProcess {
  const all = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    timezone: 'UTC',
    log_timezone: 'UTC',
    ...settings,
  };
  const flags = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  // Appended, because another server of the same folder may write to it.
  const log = openSync(logFile, 'a', 0o600);
  const server = spawn(
    '/bin/sh',
    ['-c', launchScript, 'sh', postgres, '-D', cluster, '-p', String(port), ...flags],
    { ...user, cwd: '/', env: serverEnvironment, detached: true, stdio: ['pipe', log, log] },
  );
  closeSync(log);
  // If the server ends by itself, closing the pipe ends the watcher.
  server.once('exit', () => server.stdin?.destroy());
  server.stdin?.on('error', () => {});
  return server;
}

async function untilReady(
  url: string,
  server: ChildProcess,
  logFile: string,
  logStart: number,
): Promise<void> {
  const deadline = Date.now() + startTimeoutMs;
  while (server.exitCode === null && server.signalCode === null && Date.now() < deadline) {
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      await client.end();
      return;
    } catch {
      await client.end().catch(() => {});
      await sleep(50);
    }
  }
  const log = readFileSync(logFile).subarray(logStart).toString('utf8');
  const reason = /lock file "postmaster.pid" already exists/.test(log)
    ? 'another process already runs it from the same data folder'
    : lastLine(
        log
          .split('\n')
          .filter((line) => line.includes('FATAL'))
          .join('\n') || log,
      );
  throw new EmbeddedPostgresError(`${reason} (log: ${logFile})`);
}

async function createDatabase(url: string, database: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  // The next query fails with the reason.
  client.on('error', () => {});
  await client.connect();
  try {
    await prepareSession(client);
    const found = await client.query('select from pg_database where datname = $1', [database]);
    if (found.rowCount === 0) {
      await client.query(`create database ${client.escapeIdentifier(database)}`);
    }
  } finally {
    await client.end();
  }
}

/** `preferred` if no process listens on it; otherwise any free port. */
async function freePort(preferred: number): Promise<number> {
  for (const port of [preferred, 0]) {
    const probe = createServer();
    const free = await new Promise<number | undefined>((settle) => {
      probe.once('error', () => settle(undefined));
      probe.listen(port, '127.0.0.1', () => {
        const address = probe.address();
        probe.close(() => settle(typeof address === 'object' ? address?.port : undefined));
      });
    });
    if (free !== undefined) return free;
  }
  throw new EmbeddedPostgresError('no port of 127.0.0.1 is free');
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.trim() ?? '';
}
