import Negotiator from 'negotiator';
import { arrow } from './arrow.ts';
import { csv, csvForExcel, type SpreadsheetOptions } from './csv.ts';
import type { FormatDescription } from './format.ts';
import type { LinesFormat } from './lines.ts';
import { ndjson } from './ndjson.ts';

/**
 * A Parquet file: int64, timestamps in microseconds of UTC, dictionaries for repeating text, Snappy.
 * DuckDB writes the file (exports/copy.ts).
 */
const parquet: FormatDescription = {
  mediaType: 'application/vnd.apache.parquet',
  contentType: 'application/vnd.apache.parquet',
  extension: 'parquet',
};

/** The values of `format` besides `json`. */
export const formats = {
  csv,
  csv_excel: csvForExcel(),
  ndjson,
  arrow,
  parquet,
} as const satisfies Record<string, FormatDescription>;
export type ExportFormatName = keyof typeof formats;

/** The format of a name. Only `csv_excel` has options. */
export const formatWith = <Name extends Exclude<ExportFormatName, 'parquet'>>(
  name: Name,
  options: SpreadsheetOptions | undefined,
): (typeof formats)[Name] | LinesFormat =>
  name === 'csv_excel' ? csvForExcel(options) : formats[name];

/** The formats of exports. The first one is the default. */
export const exportFormatNames = Object.keys(formats) as [ExportFormatName, ...ExportFormatName[]];

/** The formats of lists and statistics. Parquet only suits many rows. */
export const formatNames = ['json', 'csv', 'csv_excel', 'ndjson', 'arrow'] as const;
export type FormatName = (typeof formatNames)[number];

const mediaTypeOf = (name: FormatName | ExportFormatName): string =>
  name === 'json' ? 'application/json' : formats[name].mediaType;

/** The format that `Accept` prefers; the first one if it accepts none of them. */
export function acceptedFormat<Name extends FormatName | ExportFormatName>(
  accept: string | undefined,
  names: readonly [Name, ...Name[]],
): Name {
  const mediaType = preferredMediaType(accept, names.map(mediaTypeOf));
  return names.find((name) => mediaTypeOf(name) === mediaType) ?? names[0];
}

/** Such as `charset`, in all but the weight. */
const mediaParameters = /;\s*(?!q=)[\w!#$&^.+-]+=("(?:[^"\\]|\\.)*"|[^;,\s]*)/gi;

/** RFC 9110, 12.5.1. Parameters of media types do not count: no format has several. */
export const preferredMediaType = (
  accept: string | undefined,
  available: string[],
): string | undefined =>
  new Negotiator({ headers: { accept: accept?.replaceAll(mediaParameters, '') } }).mediaType(
    available,
  );
