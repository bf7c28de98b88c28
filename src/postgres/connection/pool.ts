import pg from 'pg';
import type { Sql } from 'sql-template-tag';
import { cancelRepeatedly } from './cancellation.ts';
import { prepareSession, type SessionSettings } from './session.ts';
import { SharingPool } from './sharing-pool.ts';

export type Database = pg.Pool;
export type Connection = pg.ClientBase;

/** Parses int8 as bigint, and other types like `pg`: numeric as text. So money and sums are exact. */
export const exactTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text') =>
    oid === pg.types.builtins.INT8
      ? BigInt
      : pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

type PoolOptions = {
  readonly max: number;
  /** Open connections that are not closed when idle. */
  readonly min?: number;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly statementTimeoutMs?: number;
  /** In addition to those of each connection (session.ts). */
  readonly settings?: SessionSettings;
  readonly onError?: (error: Error) => void;
};

/** The time in which the server can report its own timeout. */
const graceMs = 2_000;

export function createPool(databaseUrl: string, options: PoolOptions): Database {
  const { statementTimeoutMs } = options;
  const pool = new SharingPool({
    connectionString: databaseUrl,
    min: options.min ?? 0,
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: exactTypes,
    onConnect: (connection) =>
      prepareSession(connection, {
        ...options.settings,
        ...(statementTimeoutMs !== undefined && { statement_timeout: String(statementTimeoutMs) }),
      }),
    // Ends the wait if the server is unreachable.
    ...(statementTimeoutMs !== undefined && { query_timeout: statementTimeoutMs + graceMs }),
  });
  const open = new Set<pg.PoolClient>();
  pool.on('connect', (connection) => open.add(connection));
  pool.on('remove', (connection) => open.delete(connection));
  connectionsOf.set(pool, open);
  const recordResponse = () => respondedAt.set(pool, performance.now());
  pool.on('connect', recordResponse);
  pool.on('release', (failure) => {
    if (!failure) recordResponse();
  });
  // Without a listener, the error of an idle connection would end the process.
  pool.on('error', (error) => options.onError?.(error));
  return pool;
}

const connectionsOf = new WeakMap<Database, ReadonlySet<pg.PoolClient>>();
const respondedAt = new WeakMap<Database, number>();

/** When Postgres last accepted a connection of the pool or completed work on one, by `performance.now()`. */
export const lastResponseAt = (database: Database): number => respondedAt.get(database) ?? 0;

/**
 * Destroys the sockets of a pool, so that running queries fail. If the network drops packets, they
 * would otherwise wait for a quarter of an hour, or forever. The pool connects again on demand.
 */
export function destroyConnections(database: Database): void {
  for (const connection of connectionsOf.get(database) ?? []) {
    (connection as unknown as { connection: pg.Connection }).connection.stream.destroy();
  }
}

/**
 * Runs `work` on one connection of the pool, which does not get back a broken connection. An
 * aborted signal cancels the running statement. When the statement has ended, the promise rejects
 * with the signal's reason: until then its connection is occupied, so the pool bounds the load of
 * the server.
 */
export async function withConnection<Result>(
  database: Database,
  work: (connection: pg.PoolClient) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  signal?.throwIfAborted();
  const connection = await database.connect();
  // A connection that is lost between two queries emits an error. The next query then fails.
  const ignore = () => {};
  connection.on('error', ignore);
  let stopCancelling: (() => void) | undefined;
  const cancel = () => {
    stopCancelling = cancelRepeatedly(connection);
  };
  let failure: unknown;
  try {
    // The signal may have been aborted while the pool had no free connection.
    signal?.throwIfAborted();
    signal?.addEventListener('abort', cancel, { once: true });
    const result = await work(connection);
    signal?.throwIfAborted();
    return result;
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    failure = error;
    throw error;
  } finally {
    signal?.removeEventListener('abort', cancel);
    stopCancelling?.();
    connection.off('error', ignore);
    // A late cancel request must not affect another caller's statement.
    const isUnsafe = stopCancelling !== undefined;
    connection.release(isUnsafe || (failure instanceof Error && isConnectionFailure(failure)));
  }
}

/** Runs `work` in one read-only transaction with one snapshot. */
export const withSnapshot = <Result>(
  database: Database,
  work: (connection: Connection) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> =>
  withConnection(database, (connection) => inSnapshot(connection, work), signal);

/** Like `withSnapshot`, on a connection without a transaction. */
export const inSnapshot = <Result>(
  connection: Connection,
  work: (connection: Connection) => Promise<Result>,
): Promise<Result> =>
  inTransaction(connection, () => work(connection), 'isolation level repeatable read read only');

/** Runs `work` in a transaction with these modes, on a connection without one. */
export async function inTransaction<Result>(
  connection: Connection,
  work: () => Promise<Result>,
  modes = '',
): Promise<Result> {
  await connection.query(`begin ${modes}`);
  try {
    const result = await work();
    await connection.query('commit');
    return result;
  } catch (error) {
    await connection.query('rollback').catch(() => {});
    throw error;
  }
}

/** A prepared statement. Planning a statement on the catalogs takes a millisecond. */
export const preparedStatement = (name: string, { text, values }: Sql): pg.QueryConfig => ({
  name,
  text,
  values,
});

export async function firstRow<Row extends pg.QueryResultRow>(
  connection: Database | Connection,
  statement: Sql,
): Promise<Row | undefined> {
  const { rows } = await connection.query<Row>(statement);
  return rows[0];
}

function isConnectionFailure(error: Error): boolean {
  const code = (error as { code?: unknown }).code;
  // Errors of sockets have other codes, or none. A SQLSTATE has five characters.
  return typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^(08|57P)/.test(code);
}
