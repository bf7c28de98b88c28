import { Readable } from 'node:stream';
import { type ClickHouse, publicReason } from '../../src/engines/clickhouse/client.ts';
import { storageTable, type TableName } from '../../src/engines/clickhouse/schema.ts';

/**
 * Inserts values, the lines of a buffer, or those of a stream while they arrive. Lines have the format
 * TabSeparated.
 */
export async function insertRows(
  { client }: ClickHouse,
  table: TableName,
  columns: readonly string[],
  rows: Readable | Buffer | readonly unknown[],
  signal?: AbortSignal,
): Promise<void> {
  const values = Buffer.isBuffer(rows) ? Readable.from([rows], { objectMode: false }) : rows;
  try {
    await client.insert({
      table: storageTable(table, null),
      columns: columns as [string, ...string[]],
      values: values as Readable | unknown[],
      format: Array.isArray(values) ? 'JSONCompactEachRow' : 'TabSeparated',
      clickhouse_settings: {
        // The first row could be taken for a header.
        input_format_tsv_detect_header: 0,
        // The server would wait for other inserts, 50 ms or longer.
        async_insert: 0,
      },
      ...(signal === undefined ? {} : { abort_signal: signal }),
    });
  } catch (error) {
    throw publicReason(error, signal);
  }
}
