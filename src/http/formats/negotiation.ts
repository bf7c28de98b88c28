import Negotiator from 'negotiator';
import { arrow } from './arrow.ts';
import { csv, csvForExcel } from './csv.ts';
import type { FormatDescription } from './format.ts';
import { ndjson } from './ndjson.ts';
import { parquet } from './parquet.ts';

/** The values of `format` besides `json`. */
export const formats = {
  csv,
  csv_excel: csvForExcel,
  ndjson,
  arrow,
  parquet,
} as const satisfies Record<string, FormatDescription>;
type AnyFormatName = keyof typeof formats;
/** The formats of lists and statistics. Parquet only suits many rows. */
export type FormatName = 'json' | Exclude<AnyFormatName, 'parquet'>;
export const formatNames = [
  'json',
  'csv',
  'csv_excel',
  'ndjson',
  'arrow',
] as const satisfies readonly FormatName[];

/** The formats of exports. The first one is the default. */
export const exportFormatNames = [
  'csv',
  'csv_excel',
  'ndjson',
  'arrow',
  'parquet',
] as const satisfies readonly AnyFormatName[];
export type ExportFormatName = (typeof exportFormatNames)[number];

/** The format of an export that `Accept` prefers; CSV if it accepts none of them. */
export function acceptedExportFormat(accept: string | undefined): ExportFormatName {
  const available = exportFormatNames.map((name) => formats[name].mediaType);
  const mediaType = preferredMediaType(accept, available);
  return exportFormatNames.find((name) => formats[name].mediaType === mediaType) ?? 'csv';
}

const jsonMediaType = 'application/json';

const byMediaType = new Map<string, FormatName>([
  [jsonMediaType, 'json'],
  [csv.mediaType, 'csv'],
  [ndjson.mediaType, 'ndjson'],
  [arrow.mediaType, 'arrow'],
]);

/** The format that `Accept` prefers; JSON if it accepts none of them. */
export function acceptedFormat(accept: string | undefined): FormatName {
  const mediaType = preferredMediaType(accept, [...byMediaType.keys()]);
  return byMediaType.get(mediaType ?? jsonMediaType) ?? 'json';
}

/** RFC 9110, 12.5.1. */
export const preferredMediaType = (
  accept: string | undefined,
  available: string[],
): string | undefined => new Negotiator({ headers: { accept } }).mediaType(available);
