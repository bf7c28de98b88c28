import type { Readable } from 'node:stream';
import { type ClickHouse, publicReason } from '../../src/engines/clickhouse/client.ts';
import type { TableName } from '../../src/engines/clickhouse/schema.ts';

/** Inserts values, or the bytes of a stream in the format TabSeparated while they arrive. */
export async function insertRows(
  { client }: ClickHouse,
  table: TableName,
  columns: readonly string[],
  rows: Readable | readonly unknown[],
  signal?: AbortSignal,
): Promise<void> {
  try {
    await client.insert({
      table,
      columns: columns as [string, ...string[]],
      values: rows as Readable | unknown[],
      format: Array.isArray(rows) ? 'JSONCompactEachRow' : 'TabSeparated',
      // The first row could be taken for a header.
      clickhouse_settings: { input_format_tsv_detect_header: 0 },
      ...(signal === undefined ? {} : { abort_signal: signal }),
    });
  } catch (error) {
    throw publicReason(error, signal);
  }
}
