import type { FormatDescription } from './format.ts';

/**
 * A Parquet file: int64, timestamps in microseconds of UTC, dictionaries for repeating text, Snappy.
 * DuckDB writes the file (exports/copy.ts).
 */
export const parquet: FormatDescription = {
  mediaType: 'application/vnd.apache.parquet',
  contentType: 'application/vnd.apache.parquet',
  extension: 'parquet',
};
