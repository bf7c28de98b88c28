import Negotiator from 'negotiator';
import { arrow } from './arrow.ts';
import { csv, csvForExcel } from './csv.ts';
import type { FormatDescription } from './format.ts';
import { ndjson } from './ndjson.ts';
import { parquet } from './parquet.ts';

/** What `format` may ask for besides `json`. */
export const formats = {
  csv,
  csv_excel: csvForExcel,
  ndjson,
  arrow,
  parquet,
} as const satisfies Record<string, FormatDescription>;
type AnyFormatName = keyof typeof formats;
/** Of answers: a file whose end says where its parts are is worth it for many rows only. */
export type FormatName = 'json' | Exclude<AnyFormatName, 'parquet'>;
export const formatNames = [
  'json',
  'csv',
  'csv_excel',
  'ndjson',
  'arrow',
] as const satisfies readonly FormatName[];

/** Of exports; the first one where nothing is asked for. */
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

/** By media type. */
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
