import {
  type ClickHouse,
  type ClickHouseOptions,
  openClickHouse,
} from '../../src/engines/clickhouse/client.ts';

/** A server that is silent for this long has failed. While it works, it sends progress. */
const silenceMs = 60_000;
const progressIntervalMs = 20_000;

/** A connection for statements that take minutes, such as loads. */
export const openForWorker = (options: ClickHouseOptions): ClickHouse =>
  openClickHouse({
    ...options,
    timeoutMs: silenceMs,
    settings: {
      send_progress_in_http_headers: 1,
      http_headers_progress_interval_ms: String(progressIntervalMs),
    },
  });
