import pg from 'pg';
import type { Sql } from 'sql-template-tag';
import { keepCancelling } from './cancellation.ts';

export type Database = pg.Pool;
export type Connection = pg.ClientBase;

// int8 and numeric hold money and sums: exact as bigint and as text, never a double.
const parsers = new Map<number, (text: string) => unknown>([[pg.types.builtins.INT8, BigInt]]);

/** Types as this project reads them: int8 as bigint, everything else as `pg` does. */
export const exactTypes: pg.CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text') =>
    parsers.get(oid) ?? pg.types.getTypeParser(oid, format)) as typeof pg.types.getTypeParser,
};

export type PoolOptions = {
  readonly max: number;
  /** Shown in pg_stat_activity. */
  readonly applicationName: string;
  readonly statementTimeoutMs?: number;
  /** Prepares each new connection before it is used. */
  readonly onConnect?: (connection: Connection) => Promise<void>;
  readonly onError?: (error: Error) => void;
};

/** What the server is given to tell of its own timeout. */
const graceMs = 2_000;

export function createPool(databaseUrl: string, options: PoolOptions): Database {
  const pool = new pg.Pool({
    connectionString: databaseUrl,
    max: options.max,
    application_name: options.applicationName,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: exactTypes,
    ...(options.onConnect === undefined ? {} : { onConnect: options.onConnect }),
    ...(options.statementTimeoutMs === undefined
      ? {}
      : {
          statement_timeout: options.statementTimeoutMs,
          // Where the server cannot be reached any more, nobody else ends the wait.
          query_timeout: options.statementTimeoutMs + graceMs,
        }),
  });
  const open = new Set<pg.PoolClient>();
  pool.on('connect', (connection) => open.add(connection));
  pool.on('remove', (connection) => open.delete(connection));
  connectionsOf.set(pool, open);
  const noteAnswer = () => answeredAt.set(pool, performance.now());
  pool.on('connect', noteAnswer);
  pool.on('release', (failure) => {
    if (!failure) noteAnswer();
  });
  // An idle connection that breaks is replaced at the next query; without a
  // listener it would end the process.
  pool.on('error', (error) => options.onError?.(error));
  return pool;
}

const connectionsOf = new WeakMap<Database, ReadonlySet<pg.PoolClient>>();
const answeredAt = new WeakMap<Database, number>();

/** When Postgres last accepted a connection of the pool or completed work on one, by `performance.now()`. */
export const lastAnswerAt = (database: Database): number => answeredAt.get(database) ?? 0;

/**
 * Breaks every connection of a pool that `createPool` made: whoever waits for an answer has
 * an error instead. Where the network has gone silent no other would come for a quarter
 * of an hour, or ever. The pool connects anew when it is asked to.
 */
export function breakConnections(database: Database): void {
  for (const connection of connectionsOf.get(database) ?? []) {
    (connection as unknown as { connection: pg.Connection }).connection.stream.destroy();
  }
}

/**
 * Runs `work` on one connection of the pool; a broken one is not returned to it.
 * Once the signal is aborted, the running statement is cancelled and the promise
 * rejected with the signal's reason. That is not before the statement has really
 * ended: until then its place in the pool is taken, so that however many callers
 * give up, the server has no more to do than the pool allows.
 */
export async function withConnection<Result>(
  database: Database,
  work: (connection: pg.PoolClient) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  signal?.throwIfAborted();
  const connection = await database.connect();
  // Between queries a lost connection is reported here and nowhere else; the
  // next query fails and carries the error to the caller.
  const ignore = () => {};
  connection.on('error', ignore);
  let stopCancelling: (() => void) | undefined;
  const cancel = () => {
    stopCancelling = keepCancelling(connection);
  };
  let failure: unknown;
  try {
    // Waiting for the connection may have taken longer than the caller waited.
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
    // A request to cancel may still be on its way: nobody else may get this connection.
    const isUnsafe = stopCancelling !== undefined;
    connection.release(isUnsafe || (failure instanceof Error && isConnectionFailure(failure)));
  }
}

/** Runs `work` in one transaction that sees one snapshot and cannot write. */
export async function withSnapshot<Result>(
  database: Database,
  work: (connection: pg.PoolClient) => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const inTransaction = async (connection: pg.PoolClient): Promise<Result> => {
    await connection.query('begin isolation level repeatable read read only');
    try {
      const result = await work(connection);
      await connection.query('commit');
      return result;
    } catch (error) {
      await connection.query('rollback').catch(() => {});
      throw error;
    }
  };
  return withConnection(database, inTransaction, signal);
}

/** A statement that each connection plans once: planning one over catalogs takes a millisecond. */
export const named = (name: string, { text, values }: Sql): pg.QueryConfig => ({
  name,
  text,
  values,
});

/** The first row, or undefined. */
export async function firstRow<Row extends pg.QueryResultRow>(
  connection: Database | Connection,
  statement: Sql,
): Promise<Row | undefined> {
  const { rows } = await connection.query<Row>(statement);
  return rows[0];
}

function isConnectionFailure(error: Error): boolean {
  const code = (error as { code?: unknown }).code;
  // SQLSTATE has five characters; a sockets' error (ECONNRESET) or none is not the server's answer.
  return typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code) || /^(08|57P)/.test(code);
}
