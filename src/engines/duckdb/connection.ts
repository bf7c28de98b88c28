import {
  BIGINT,
  type DuckDBConnection,
  type DuckDBDataChunk,
  DuckDBInstance,
  type DuckDBType,
  type DuckDBValue,
} from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';

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

/** A statement's parameters as node-api takes them. A bigint is bound as BIGINT. */
function boundValues(statement: Sql) {
  const values = statement.values as DuckDBValue[];
  // node-api would take a bigint for a HUGEINT, which no zone map is compared with.
  const types = Object.fromEntries(
    values.flatMap((value, index) =>
      typeof value === 'bigint' ? [[String(index + 1), BIGINT as DuckDBType]] : [],
    ),
  );
  const named = Object.fromEntries(values.map((value, index) => [String(index + 1), value]));
  return { named, types };
}

/** Runs one statement for what it does. */
export async function runStatement(connection: DuckDBConnection, statement: Sql): Promise<void> {
  const { named, types } = boundValues(statement);
  await connection.run(statement.text, named, types);
}

/** What a statement gives, chunk by chunk: DuckDB reads on while one is used. */
export async function* streamChunks(
  connection: DuckDBConnection,
  statement: Sql,
): AsyncGenerator<DuckDBDataChunk> {
  const { named, types } = boundValues(statement);
  const result = await connection.stream(statement.text, named, types);
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
  const { named, types } = boundValues(statement);
  const reader = await connection.runAndReadAll(statement.text, named, types);
  return reader.getRows() as DuckDBRow[];
}

/** A path as a SQL string, for ATTACH takes no parameters. */
export function quotePath(path: string): string {
  return `'${path.replaceAll("'", "''")}'`;
}
