import {
  type ClickHouseClient,
  ClickHouseError,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';
import type { Sql } from 'sql-template-tag';
import { StoreUnavailableError } from '../../domain/purchase-engine.ts';

/** A value as `JSONCompactEachRow` writes it: integers of 64 bits or more as text. */
export type ClickHouseValue = string | number | null | readonly ClickHouseValue[];
export type ClickHouseRow = readonly ClickHouseValue[];

export type ClickHouse = {
  /** The cluster whose tables are replicated and distributed; null for one server. */
  readonly cluster: string | null;
  /** For requests that this module does not make, such as inserts. */
  readonly client: ClickHouseClient;
  /**
   * Runs one query. Values are bound by the server: a bigint as Int64, a text as String. An aborted
   * signal cancels the query and rejects with its reason. Rejects with StoreUnavailableError if the
   * server cannot be reached or refuses.
   */
  query(statement: Sql, signal?: AbortSignal): Promise<ClickHouseRow[]>;
  /** Like `query`, in batches as they arrive. The server does not limit its time. */
  stream(statement: Sql, signal?: AbortSignal): AsyncIterable<readonly ClickHouseRow[]>;
  run(statement: Sql, signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
};

export type ClickHouseOptions = {
  /** http or https, possibly with user and password. */
  readonly url: string;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  readonly database: string;
  readonly cluster?: string | undefined;
  /** The time in which the server must respond. */
  readonly timeoutMs: number;
  readonly maxConnections?: number;
  /** In addition to those of every request. */
  readonly settings?: ClickHouseSettings;
};

/**
 * A row counts only once a majority of the replicas has it, and a replica that does not have all
 * such rows refuses to answer. Serial quorums are the condition of sequential consistency. A
 * subquery runs on the shard of its query, because all rows of a purchase's customer are on one.
 */
const clusterSettings = {
  insert_quorum: 'auto',
  insert_quorum_parallel: 0,
  select_sequential_consistency: '1',
  distributed_foreground_insert: 1,
  distributed_product_mode: 'local',
} as const;

/** Node's limit is 16 KB, which the progress of a statement of the worker exceeds in half an hour. */
const maxHeaderBytes = 2 ** 20;

/** A query failed because no worker of this version has created the tables. */
export const lacksTables = (error: unknown): boolean =>
  error instanceof ClickHouseError && error.type === 'UNKNOWN_TABLE';

export function openClickHouse(options: ClickHouseOptions): ClickHouse {
  const {
    url,
    user,
    password,
    database,
    cluster = null,
    timeoutMs,
    maxConnections,
    settings,
  } = options;
  const client = createClient({
    url,
    ...(user === undefined ? {} : { username: user }),
    ...(password === undefined ? {} : { password }),
    ...(maxConnections === undefined ? {} : { max_open_connections: maxConnections }),
    database,
    request_timeout: timeoutMs,
    max_response_headers_size: maxHeaderBytes,
    application: 'crm-data-service',
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: {
      output_format_json_quote_64bit_integers: 1,
      cancel_http_readonly_queries_on_client_close: 1,
      ...(cluster === null ? {} : clusterSettings),
      ...settings,
    },
  });
  return {
    cluster,
    client,
    query: async (statement, signal) => {
      const rows: ClickHouseRow[] = [];
      const maxSeconds = Math.ceil(timeoutMs / 1000);
      for await (const batch of receive(client, statement, { maxSeconds, signal })) {
        rows.push(...batch);
      }
      return rows;
    },
    stream: (statement, signal) => receive(client, statement, { maxSeconds: 0, signal }),
    run: async (statement, signal) => {
      const request = {
        query: textOf(statement),
        query_params: parametersOf(statement),
        ...(signal === undefined ? {} : { abort_signal: signal }),
      };
      await client.command(request).catch((error) => {
        throw publicReason(error, signal);
      });
    },
    close: () => client.close(),
  };
}

/** Sends a query. The server cancels it if the caller stops early or the signal is aborted. */
async function* receive(
  client: ClickHouseClient,
  statement: Sql,
  options: { readonly maxSeconds: number; readonly signal: AbortSignal | undefined },
): AsyncGenerator<readonly ClickHouseRow[]> {
  const { maxSeconds, signal } = options;
  signal?.throwIfAborted();
  let close = () => {};
  try {
    const result = await client.query({
      query: textOf(statement),
      query_params: parametersOf(statement),
      format: 'JSONCompactEachRow',
      // ClickHouse cancels queries of closed connections only in this mode, which allows other settings.
      clickhouse_settings: { max_execution_time: maxSeconds, readonly: '2' },
      ...(signal === undefined ? {} : { abort_signal: signal }),
    });
    close = () => result.close();
    // The client itself observes the signal only until the head of the response.
    signal?.addEventListener('abort', close, { once: true });
    for await (const rows of result.stream<ClickHouseRow>()) yield rows.map((row) => row.json());
  } catch (error) {
    throw publicReason(error, signal);
  } finally {
    signal?.removeEventListener('abort', close);
    close();
  }
}

/** The signal's reason, an error in the terms of the interface, or a fault of this program. */
export function publicReason(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted === true) return signal.reason;
  if (!isUnavailable(error)) return error;
  const { message } = error as Error;
  const text = message.split('\n', 1)[0]?.slice(0, 300);
  return new StoreUnavailableError(`ClickHouse: ${text}`, { cause: error });
}

/** States of the server, which may end. Their messages quote no values of rows. */
const transientTypes = new Set([
  'ALL_CONNECTION_TRIES_FAILED',
  'ALL_REPLICAS_ARE_STALE',
  'AUTHENTICATION_FAILED',
  'ACCESS_DENIED',
  'CANNOT_SCHEDULE_TASK',
  'KEEPER_EXCEPTION',
  'MEMORY_LIMIT_EXCEEDED',
  'NETWORK_ERROR',
  'NOT_ENOUGH_SPACE',
  'QUERY_WAS_CANCELLED',
  'REPLICA_IS_NOT_IN_QUORUM',
  'SERVER_OVERLOADED',
  'SOCKET_TIMEOUT',
  'TABLE_IS_READ_ONLY',
  'TIMEOUT_EXCEEDED',
  'TOO_FEW_LIVE_REPLICAS',
  'TOO_MANY_SIMULTANEOUS_QUERIES',
  'UNKNOWN_DATABASE',
  'UNKNOWN_STATUS_OF_INSERT',
  'UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE',
]);

/** All errors of connections count, and none of this program or of a response that is no JSON. */
function isUnavailable(error: unknown): boolean {
  if (error instanceof ClickHouseError) return transientTypes.has(error.type ?? '');
  const faults = [TypeError, RangeError, SyntaxError];
  return error instanceof Error && !faults.some((fault) => error instanceof fault);
}

/** The text, with a placeholder for each value. */
export function textOf({ strings, values }: Sql): string {
  const placeholders = values.map(
    (value, index) => `{p${index}:${typeof value === 'bigint' ? 'Int64' : 'String'}}`,
  );
  return strings.map((text, index) => `${text}${placeholders[index] ?? ''}`).join('');
}

/** The values of the placeholders. */
export const parametersOf = ({ values }: Sql): Record<string, string> =>
  Object.fromEntries(values.map((value, index) => [`p${index}`, String(value)]));
