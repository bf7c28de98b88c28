import type { Sql } from 'sql-template-tag';
import { OperatorError } from '../../src/operator-error.ts';

/** A value as `JSONCompactEachRow` writes it, 64-bit integers as text. */
export type ClickHouseValue = string | number | null | readonly ClickHouseValue[];
export type ClickHouseRow = readonly ClickHouseValue[];

/** A ClickHouse within this process, over a folder of its own. */
export type ClickHouse = {
  readonly version: string;
  /** Runs one statement; a bigint is bound as Int64, a text as String. */
  query(statement: Sql): Promise<ClickHouseRow[]>;
  close(): Promise<void>;
};

/** What of the package `chdb` is used here; it is installed for `npm run bench:clickhouse` alone. */
type Chdb = {
  readonly Session: new (
    directory: string,
  ) => {
    queryBindAsync(
      statement: string,
      values: Readonly<Record<string, string>>,
      options: { readonly format: string },
    ): Promise<{ text(): string }>;
    close(): void;
  };
  drainPending(): Promise<void>;
};

/**
 * Opens ClickHouse with as many threads to a statement as DuckDB has. What remembers
 * answers or parts of them is off: the first to ask would wait for it all the same.
 */
export async function openClickHouse(directory: string, threads: number): Promise<ClickHouse> {
  const { Session, drainPending } = await loadChdb();
  const session = new Session(directory);
  const run = async (text: string, values: Readonly<Record<string, string>> = {}) => {
    const answer = await session.queryBindAsync(text, values, { format: 'JSONCompactEachRow' });
    const lines = answer.text().split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as ClickHouseRow);
  };
  await run(`set max_threads = ${threads}`);
  await run('set use_query_condition_cache = 0, use_query_cache = 0');
  await run('set output_format_json_quote_64bit_integers = 1');
  const [version] = (await run('select version()'))[0] ?? [];
  return {
    version: String(version),
    query: ({ strings, values }) => run(textOf(strings, values), valuesOf(values)),
    async close() {
      session.close();
      await drainPending();
    },
  };
}

async function loadChdb(): Promise<Chdb> {
  // Not a literal: the types must hold where the package is not installed.
  const name: string = 'chdb';
  try {
    return (await import(name)) as Chdb;
  } catch (error) {
    const { message } = error as Error;
    throw new OperatorError(
      `ClickHouse cannot be loaded: ${message}\nnpm run bench:clickhouse installs it, on Linux with glibc and on macOS.`,
    );
  }
}

function textOf(strings: readonly string[], values: readonly unknown[]): string {
  const placeholders = values.map(
    (value, index) => `{p${index}:${typeof value === 'bigint' ? 'Int64' : 'String'}}`,
  );
  return strings.map((text, index) => `${text}${placeholders[index] ?? ''}`).join('');
}

function valuesOf(values: readonly unknown[]): Record<string, string> {
  return Object.fromEntries(values.map((value, index) => [`p${index}`, String(value)]));
}
