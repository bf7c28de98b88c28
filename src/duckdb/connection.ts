import { setTimeout as sleep } from 'node:timers/promises';
import {
  BIGINT,
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBInstance,
  type DuckDBMaterializedResult,
  type DuckDBPreparedStatement,
  type DuckDBType,
  type DuckDBValue,
} from '@duckdb/node-api';
import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js';
import { LRUCache } from 'lru-cache';
import type { Sql } from 'sql-template-tag';
import { isOutOfMemory } from './memory.ts';

// The decoder of node-api drops a byte order mark at the beginning of a text.
Object.assign(accessors, { textDecoder: new TextDecoder('utf-8', { ignoreBOM: true }) });

export type DuckDBOptions = {
  readonly threads: number;
  /** A size of DuckDB such as `1GiB`. */
  readonly memoryLimit: string;
  /** DuckDB's `temp_directory`. */
  readonly spillDirectory: string;
  /** Files of this folder, and files that the process has open, may be opened. Others may not. */
  readonly dataDirectory?: string;
};

/**
 * DuckDB aggregates groups of integers by direct addressing if the keys have at most this many
 * bits. 22 bits allow four million customers, in 64 MB. With the default, 12, all but the smallest
 * dictionaries need a hash table.
 */
const perfectHashBits = 22;

/**
 * An instance for many attached files. No statement can open a file outside the data folder, load an extension
 * or change a setting. `prepare` runs before these limits apply.
 */
export async function createInstance(
  options: DuckDBOptions,
  prepare: (connection: DuckDBConnection) => Promise<void> = async () => {},
): Promise<DuckDBInstance> {
  const instance = await DuckDBInstance.create(':memory:', {
    threads: String(options.threads),
    memory_limit: options.memoryLimit,
    temp_directory: options.spillDirectory,
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    perfect_ht_threshold: String(perfectHashBits),
    // Late materialization reads pages by row id in a second scan, which was measured slower.
    late_materialization_max_rows: '0',
    // Coupons of 60 KB: without it, a load took a fifth of the processor time, and a page half.
    disabled_compression_methods: 'zstd',
  });
  try {
    await withDuckDBConnection(instance, async (connection) => {
      await prepare(connection);
      await lock(connection, options.dataDirectory);
    });
  } catch (error) {
    instance.closeSync();
    throw error;
  }
  return instance;
}

/** DuckDB adds its `temp_directory` to these folders. */
async function lock(
  connection: DuckDBConnection,
  dataDirectory: string | undefined,
): Promise<void> {
  const folders = dataDirectory === undefined ? [] : [dataDirectory, '/dev/fd'];
  await connection.run(`
    set allowed_directories = [${folders.map(quotePath).join(', ')}];
    set allowed_paths = ['/dev/stdout'];
    set enable_external_access = false;
    set lock_configuration = true`);
}

/** Closes the connection when `work` has ended. */
export async function withDuckDBConnection<Result>(
  instance: DuckDBInstance,
  work: (connection: DuckDBConnection) => Promise<Result>,
): Promise<Result> {
  const connection = await instance.connect();
  return work(connection).finally(() => connection.closeSync());
}

export type DuckDBRow = readonly (bigint | number | string | null)[];

function boundValues({ values }: Sql): [DuckDBValue[], DuckDBType[]] {
  // node-api binds a bigint as HUGEINT, which DuckDB compares with no zone map. For an
  // undefined type node-api infers the type, contrary to its type declarations.
  const types = values.map((value) => (typeof value === 'bigint' ? BIGINT : undefined));
  return [values as DuckDBValue[], types as DuckDBType[]];
}

type StatementCache = LRUCache<string, DuckDBPreparedStatement>;

const keptStatements = new WeakMap<DuckDBConnection, StatementCache>();

/**
 * A connection that keeps its prepared statements for the same text with other values. Each takes some
 * 170 KB. `close` also destroys them, because a prepared statement keeps the instance open.
 */
export type KeepingConnection = { readonly connection: DuckDBConnection; close(): void };

export async function connectKeepingStatements(
  instance: DuckDBInstance,
  maxKeptStatements: number,
): Promise<KeepingConnection> {
  const connection = await instance.connect();
  if (maxKeptStatements === 0) return { connection, close: () => connection.closeSync() };
  const statements: StatementCache = new LRUCache({
    max: maxKeptStatements,
    dispose: (prepared) => prepared.destroySync(),
  });
  keptStatements.set(connection, statements);
  return {
    connection,
    close() {
      statements.clear();
      connection.closeSync();
    },
  };
}

const inUse = new WeakSet<DuckDBConnection>();

/**
 * Prepares and runs one statement. `runAndReadAll` of node-api enters its thread pool five times,
 * this function once or twice: for a small result, that doubled the time.
 *
 * Rejects if a connection that keeps its statements runs another one: DuckDB crashes if a prepared statement runs
 * twice at once.
 */
async function execute(
  connection: DuckDBConnection,
  statement: Sql,
): Promise<DuckDBMaterializedResult> {
  if (statement.values.length === 0) return connection.run(statement.text);
  const kept = keptStatements.get(connection);
  if (kept === undefined) {
    const prepared = await connection.prepare(statement.text);
    return runPrepared(prepared, statement).finally(() => prepared.destroySync());
  }
  if (inUse.has(connection)) throw new Error('the connection already runs a statement');
  inUse.add(connection);
  try {
    let prepared = kept.get(statement.text);
    if (prepared === undefined) {
      prepared = await connection.prepare(statement.text);
      kept.set(statement.text, prepared);
    }
    return await runPrepared(prepared, statement);
  } finally {
    inUse.delete(connection);
  }
}

async function runPrepared(
  prepared: DuckDBPreparedStatement,
  statement: Sql,
): Promise<DuckDBMaterializedResult> {
  prepared.bind(...boundValues(statement));
  return prepared.run();
}

export async function runStatement(connection: DuckDBConnection, statement: Sql): Promise<void> {
  await execute(connection, statement);
}

/** Streams a result in chunks. DuckDB reads the next chunk while the caller uses one. */
export async function* streamChunks(
  connection: DuckDBConnection,
  statement: Sql,
): AsyncGenerator<DuckDBDataChunk> {
  const result = await connection.stream(statement.text, ...boundValues(statement));
  let next = result.fetchChunk();
  try {
    for (;;) {
      const chunk = await next;
      if (chunk === null || chunk.rowCount === 0) return;
      next = result.fetchChunk();
      yield chunk;
    }
  } finally {
    await next.catch(() => {});
  }
}

export async function queryRows(
  connection: DuckDBConnection,
  statement: Sql,
): Promise<DuckDBRow[]> {
  return [...(await iterateRows(connection, statement))];
}

/** As `queryRows`, but converts each row to JavaScript when the caller takes it. */
export async function iterateRows(
  connection: DuckDBConnection,
  statement: Sql,
): Promise<Iterable<DuckDBRow>> {
  return rowsOf(await execute(connection, statement));
}

export function* rowsOf(result: DuckDBMaterializedResult): Generator<DuckDBRow> {
  for (let index = 0; index < result.chunkCount; index += 1) {
    const chunk = result.getChunk(index);
    const { rowCount } = chunk;
    for (let row = 0; row < rowCount; row += 1) yield chunk.getRowValues(row) as DuckDBRow;
  }
}

/**
 * Detaches a file if it is attached. DuckDB needs memory for this, and may have none while queries
 * run: the file would then stay attached, with the memory that it takes. So this function waits.
 */
export async function detach(connection: DuckDBConnection, catalog: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await connection.run(`detach database if exists ${catalog}`);
      return;
    } catch (error) {
      if (!isOutOfMemory(error) || attempt === maxDetachAttempts) throw error;
    }
    await sleep(detachPauseMs);
  }
}

const maxDetachAttempts = 100;
const detachPauseMs = 50;

/** A path as an SQL literal, because ATTACH accepts no parameters. */
export function quotePath(path: string): string {
  return `'${path.replaceAll("'", "''")}'`;
}
