import {
  type ClickHouse,
  type ClickHouseRow,
  parametersOf,
  textOf,
} from '../../src/engines/clickhouse/client.ts';
import { loadChdb } from '../../test/clickhouse/chdb.ts';

/** Where statements run. */
export type PlainClickHouse = Pick<ClickHouse, 'query' | 'run'>;

/** A ClickHouse in this process, over a folder. */
export type ClickHouseSession = PlainClickHouse & {
  readonly version: string;
  close(): Promise<void>;
};

/** Opens ClickHouse with DuckDB's number of threads, and without caches of conditions and results. */
export async function openClickHouse(
  directory: string,
  threads: number,
): Promise<ClickHouseSession> {
  const { Session, drainPending } = loadChdb();
  const session = new Session(directory);
  const run = async (text: string, values: Readonly<Record<string, string>> = {}) => {
    const result = await session.queryBindAsync(text, values, { format: 'JSONCompactEachRow' });
    const lines = result.text().split('\n');
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as ClickHouseRow);
  };
  await run(`set max_threads = ${threads}`);
  await run('set use_query_condition_cache = 0, use_query_cache = 0');
  await run('set output_format_json_quote_64bit_integers = 1');
  const [version] = (await run('select version()'))[0] ?? [];
  return {
    version: String(version),
    query: (statement) => run(textOf(statement), parametersOf(statement)),
    run: async (statement) => {
      await run(textOf(statement), parametersOf(statement));
    },
    async close() {
      session.close();
      await drainPending();
    },
  };
}
