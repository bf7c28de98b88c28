import type { FormatDescription } from './format.ts';

/**
 * A Parquet file: int64, timestamps in microseconds of UTC, text with dictionaries where
 * it repeats, Snappy. DuckDB writes it (exports/copy.ts).
 */
export const parquet: FormatDescription = {
  mediaType: 'application/vnd.apache.parquet',
  contentType: 'application/vnd.apache.parquet',
  extension: 'parquet',
};
