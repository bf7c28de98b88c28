import {
  type ClickHouse,
  type ClickHouseOptions,
  type ClickHouseRow,
  openClickHouse,
} from '../../src/engines/clickhouse/client.ts';

/** A server that sends nothing for this long has failed. While it works, it sends progress. */
const responseTimeoutMs = 60_000;
const progressIntervalMs = 20_000;

/** A connection for statements that take minutes, such as loads and comparisons. */
export function openForWorker(
  options: Omit<ClickHouseOptions, 'timeoutMs'>,
  timeoutMs = responseTimeoutMs,
): ClickHouse {
  const clickhouse = openClickHouse({
    ...options,
    timeoutMs,
    settings: {
      send_progress_in_http_headers: 1,
      http_headers_progress_interval_ms: String(progressIntervalMs),
    },
  });
  return {
    ...clickhouse,
    // The server limits the time of `query`.
    async query(statement, signal) {
      const rows: ClickHouseRow[] = [];
      for await (const batch of clickhouse.stream(statement, signal)) rows.push(...batch);
      return rows;
    },
  };
}
