import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { backoffMs } from '../../process/backoff.ts';
import { errorText } from '../../process/error-text.ts';
import { OperatorError } from '../../process/operator-error.ts';
import { findTableProblem, findVersionProblem } from '../schema/schema.ts';
import {
  type DatabaseFailure,
  describeDatabaseFailure,
  poolerAdvice,
  type TableRights,
} from './database-failure.ts';
import { prepareSession } from './session.ts';

export type DatabaseNeeds = {
  /** Whether a standby is refused. */
  readonly isPrimary: boolean;
  /** Whether the caller migrates the schema. */
  readonly isToMigrate?: true;
  readonly rights?: TableRights;
};

export type DatabaseWait = {
  /** The maximum wait for the end of a transient condition. */
  readonly forMs: number;
  /** The timeout of connecting, and of each check. */
  readonly timeoutMs?: number;
  /** Receives one line for each transient condition. */
  readonly report: (line: string) => void;
  readonly stopped?: AbortSignal | undefined;
};

const defaultTimeoutMs = 10_000;
const maxBackoffMs = 5_000;

/**
 * Resolves with true once the database is usable, and with false if `stopped` is aborted first.
 * Waits while the condition is transient: Postgres is down, starts, is in recovery, has no free
 * connection or refuses logins. Otherwise rejects with an OperatorError: one line with advice.
 */
export async function requireDatabase(
  databaseUrl: string,
  needs: DatabaseNeeds,
  wait: DatabaseWait,
): Promise<boolean> {
  const { forMs, timeoutMs = defaultTimeoutMs } = wait;
  const deadline = performance.now() + forMs;
  let reported = '';
  for (let attempts = 1; ; attempts += 1) {
    const { failure, name } = await tryDatabase(databaseUrl, needs, timeoutMs);
    if (wait.stopped?.aborted === true) return false;
    if (failure === null) return true;
    const line = `Cannot use the database ${name}: ${failure.message} ${failure.advice}`.trim();
    const leftMs = deadline - performance.now();
    if (!failure.isTransient || forMs === 0) throw new OperatorError(line);
    if (leftMs <= 0) {
      throw new OperatorError(`${line} Gave up after ${Math.ceil(forMs / 1000)} s.`);
    }
    if (reported !== failure.message) {
      wait.report(`${line} Trying again for ${Math.ceil(leftMs / 1000)} s.`);
    }
    reported = failure.message;
    const pauseMs = Math.min(backoffMs(attempts, maxBackoffMs), leftMs);
    await sleep(pauseMs, undefined, { signal: wait.stopped }).catch(() => {});
  }
}

type Attempt = { readonly failure: DatabaseFailure | null; readonly name: string };

async function tryDatabase(
  databaseUrl: string,
  needs: DatabaseNeeds,
  timeoutMs: number,
): Promise<Attempt> {
  const client = createClient(databaseUrl, timeoutMs);
  const name = `${client.database} at ${client.host}:${client.port}`;
  try {
    await client.connect();
    await prepareSession(client);
    return { failure: await findProblem(client, databaseUrl, needs), name };
  } catch (error) {
    const unknown = { message: `${errorText(error)}.`, advice: 'Check DATABASE_URL.' };
    return { failure: describeDatabaseFailure(error) ?? unknown, name };
  } finally {
    await client.end().catch(() => {});
  }
}

/** The client is not connected yet. */
function createClient(databaseUrl: string, timeoutMs: number): pg.Client {
  try {
    const client = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'crm-data-service start',
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
    });
    client.on('error', () => {});
    return client;
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (path !== undefined) {
      throw new OperatorError(
        `DATABASE_URL names the file ${path}, which cannot be read: ${code}.`,
      );
    }
    // The parser's message quotes the URL with the password.
    throw new OperatorError(
      'DATABASE_URL cannot be read: a password must have %23 for #, %2F for /, %3F for ? and %25 for %.',
    );
  }
}

async function findProblem(
  client: pg.Client,
  databaseUrl: string,
  needs: DatabaseNeeds,
): Promise<DatabaseFailure | null> {
  const { rows } = await client.query<{
    version: number;
    encoding: string;
    is_standby: boolean;
    pid: number;
  }>(`
    select current_setting('server_version_num')::int as version,
      current_setting('server_encoding') as encoding,
      pg_is_in_recovery() as is_standby,
      pg_backend_pid() as pid`);
  const [{ version, encoding, is_standby, pid }] = rows as [(typeof rows)[number]];
  if (version < 130_000) {
    return {
      message: `It is Postgres ${Math.floor(version / 10_000)}.`,
      advice: 'Postgres 13 or later is needed.',
    };
  }
  if (encoding !== 'UTF8') {
    return {
      message: `Its encoding is ${encoding}, and must be UTF8.`,
      advice: "Copy it into a database that is created with `encoding 'UTF8' template template0`.",
    };
  }
  if (needs.isPrimary && is_standby) {
    return {
      message: 'It is a read replica, or still in recovery.',
      advice: 'Name the primary in DATABASE_URL.',
      isTransient: true,
    };
  }
  const { processID } = client as unknown as { processID: number | null };
  if (processID !== pid && (await sharesServerSessions(client, pid, databaseUrl))) {
    const message = 'A connection pool in transaction mode is in between.';
    return { message, advice: poolerAdvice };
  }
  return (
    (await findVersionProblem(client, needs.isToMigrate === true)) ??
    (await findTableProblem(client, needs.rights ?? {}))
  );
}

/**
 * Whether a pooler shares server sessions between clients. Then a second client's transaction gets
 * the session of the first client, or occupies it.
 */
async function sharesServerSessions(
  first: pg.Client,
  pid: number,
  databaseUrl: string,
): Promise<boolean> {
  const readPid = async (client: pg.Client) => {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
    return rows[0]?.pid;
  };
  const second = createClient(databaseUrl, defaultTimeoutMs);
  try {
    await second.connect();
    await second.query('begin');
    return (await readPid(second)) === pid || (await readPid(first)) !== pid;
  } finally {
    await second.end().catch(() => {});
  }
}
