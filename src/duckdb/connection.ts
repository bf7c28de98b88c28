import {
  BIGINT,
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBInstance,
  type DuckDBMaterializedResult,
  type DuckDBType,
  type DuckDBValue,
} from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';
import '../engines/duckdb/exact-texts.ts';

export type DuckDBOptions = {
  readonly threads: number;
  /** As DuckDB writes sizes: `1GiB`. */
  readonly memoryLimit: string;
  /** Where what does not fit into memory goes. */
  readonly spillDirectory: string;
};

/**
 * A group of integers is aggregated by direct addressing while its keys need no
 * more bits than this: four million customers, in some 64 MB. The default, 12,
 * would leave all but the smallest dictionaries to a hash table.
 */
const perfectHashBits = 22;

/** One instance for many attached files; nothing is fetched, installed or autoloaded. */
export async function createInstance(options: DuckDBOptions): Promise<DuckDBInstance> {
  return DuckDBInstance.create(':memory:', {
    threads: String(options.threads),
    memory_limit: options.memoryLimit,
    temp_directory: options.spillDirectory,
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
    perfect_ht_threshold: String(perfectHashBits),
    // Above 0, pages are read by row id in a second scan; measured slower here.
    late_materialization_max_rows: '0',
  });
}

export type DuckDBRow = readonly (bigint | number | string | null)[];

/** A statement's values and their types, as node-api binds them. */
function boundValues({ values }: Sql): [DuckDBValue[], DuckDBType[]] {
  // It would take a bigint for a HUGEINT, which no zone map is compared with. Where there is
  // no type it finds a value's own, which its declarations do not say.
  const types = values.map((value) => (typeof value === 'bigint' ? BIGINT : undefined));
  return [values as DuckDBValue[], types as DuckDBType[]];
}

/**
 * Prepares and runs one statement; whoever reads the result does so without waiting.
 * node-api's own `runAndReadAll` goes to its thread pool five times where this does twice,
 * or once: for a small answer that takes as long as the statement does.
 */
async function execute(
  connection: DuckDBConnection,
  statement: Sql,
): Promise<DuckDBMaterializedResult> {
  if (statement.values.length === 0) return connection.run(statement.text);
  const prepared = await connection.prepare(statement.text);
  try {
    prepared.bind(...boundValues(statement));
    return await prepared.run();
  } finally {
    prepared.destroySync();
  }
}

/** Runs one statement for what it does. */
export async function runStatement(connection: DuckDBConnection, statement: Sql): Promise<void> {
  await execute(connection, statement);
}

/** What a statement gives, chunk by chunk: DuckDB reads on while one is used. */
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

/** Runs one statement and returns its rows. */
export async function queryRows(
  connection: DuckDBConnection,
  statement: Sql,
): Promise<DuckDBRow[]> {
  return rowsOf(await execute(connection, statement));
}

/** The rows of a result that is there. */
export function rowsOf(result: DuckDBMaterializedResult): DuckDBRow[] {
  const rows: DuckDBRow[] = [];
  for (let chunk = 0; chunk < result.chunkCount; chunk += 1) {
    rows.push(...(result.getChunk(chunk).getRows() as DuckDBRow[]));
  }
  return rows;
}

/** A path as a SQL string, for ATTACH takes no parameters. */
export function quotePath(path: string): string {
  return `'${path.replaceAll("'", "''")}'`;
}
