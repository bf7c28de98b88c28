import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import sql, { join, raw, type Sql } from 'sql-template-tag';

/** A value as `JSONCompactEachRow` writes it: integers of 64 bits or more as text. */
export type ClickHouseValue = string | number | null;
export type ClickHouseRow = readonly ClickHouseValue[];

export type ClickHouse = {
  /**
   * Runs one query. Values are bound by the server: a bigint as Int64, a text as String. An aborted
   * signal cancels the query and rejects with its reason.
   */
  query(statement: Sql, signal?: AbortSignal): Promise<ClickHouseRow[]>;
  /** Like `query`, in batches as they arrive. */
  stream(statement: Sql, signal?: AbortSignal): AsyncIterable<readonly ClickHouseRow[]>;
  /** Runs a statement without a result. */
  run(statement: Sql): Promise<void>;
  close(): Promise<void>;
};

export type ClickHouseOptions = {
  /** With user, password and database. */
  readonly url: string;
  readonly timeoutMs: number;
};

export function openClickHouse({ url, timeoutMs }: ClickHouseOptions): ClickHouse {
  const client = createClient({
    url,
    request_timeout: timeoutMs,
    application: 'crm-data-service',
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: {
      output_format_json_quote_64bit_integers: 1,
      cancel_http_readonly_queries_on_client_close: 1,
      max_execution_time: Math.ceil(timeoutMs / 1000),
    },
  });
  return {
    query: async (statement, signal) => {
      const result = await run(client, statement, signal);
      return result.json<ClickHouseRow>();
    },
    async *stream(statement, signal) {
      const result = await run(client, statement, signal);
      for await (const rows of result.stream<ClickHouseRow>()) {
        yield rows.map((row) => row.json());
      }
    },
    run: async (statement) => {
      await client.command({ query: textOf(statement), query_params: parametersOf(statement) });
    },
    close: () => client.close(),
  };
}

async function run(client: ClickHouseClient, statement: Sql, signal: AbortSignal | undefined) {
  signal?.throwIfAborted();
  try {
    return await client.query({
      query: textOf(statement),
      query_params: parametersOf(statement),
      format: 'JSONCompactEachRow',
      ...(signal === undefined ? {} : { abort_signal: signal }),
    });
  } catch (error) {
    throw signal?.aborted === true ? signal.reason : error;
  }
}

function textOf({ strings, values }: Sql): string {
  const placeholders = values.map(
    (value, index) => `{p${index}:${typeof value === 'bigint' ? 'Int64' : 'String'}}`,
  );
  return strings.map((text, index) => `${text}${placeholders[index] ?? ''}`).join('');
}

const parametersOf = ({ values }: Sql): Record<string, string> =>
  Object.fromEntries(values.map((value, index) => [`p${index}`, String(value)]));

/** A list of texts as an SQL list. */
export const listOf = (texts: readonly string[]): Sql =>
  texts.length === 0 ? raw('(null)') : sql`(${join(texts)})`;
