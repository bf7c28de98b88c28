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

/** The format that `Accept` likes best of an export; CSV where it likes none of them. */
export function acceptedExportFormat(accept: string | undefined): ExportFormatName {
  const available = exportFormatNames.map((name) => formats[name].mediaType);
  const mediaType = preferredMediaType(accept, available);
  return exportFormatNames.find((name) => formats[name].mediaType === mediaType) ?? 'csv';
}

const jsonMediaType = 'application/json';

/** By media type; the first one is what is sent where several are as welcome. */
const byMediaType = new Map<string, FormatName>([
  [jsonMediaType, 'json'],
  [csv.mediaType, 'csv'],
  [ndjson.mediaType, 'ndjson'],
  [arrow.mediaType, 'arrow'],
]);

/** The format that `Accept` likes best; JSON where it likes none of them. */
export function acceptedFormat(accept: string | undefined): FormatName {
  const mediaType = preferredMediaType(accept, [...byMediaType.keys()]);
  return byMediaType.get(mediaType ?? jsonMediaType) ?? 'json';
}

/**
 * The media type that an `Accept` header (RFC 9110, 12.5.1) gives the highest weight,
 * the first one where several have it; null where it accepts none of them. Of ranges
 * that match one type the most specific counts. Parameters other than `q` are not looked
 * at, and what is malformed is passed over.
 */
export function preferredMediaType(
  accept: string | undefined,
  available: readonly string[],
): string | null {
  if (accept === undefined || accept.trim() === '') return available[0] ?? null;
  const ranges = accept.split(',').flatMap(readRange);
  const weightOf = (mediaType: string): number => {
    const [type] = mediaType.split('/');
    for (const name of [mediaType, `${type}/*`, '*/*']) {
      const found = ranges.find((range) => range.name === name);
      if (found !== undefined) return found.weight;
    }
    return 0;
  };
  let best: { mediaType: string | null; weight: number } = { mediaType: null, weight: 0 };
  for (const mediaType of available) {
    const weight = weightOf(mediaType);
    if (weight > best.weight) best = { mediaType, weight };
  }
  return best.mediaType;
}

function readRange(text: string): { name: string; weight: number }[] {
  const [name = '', ...parameters] = text.split(';').map((part) => part.trim().toLowerCase());
  if (!/^[^\s/]+\/[^\s/]+$/.test(name)) return [];
  const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
  return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(weight) ? [{ name, weight: Number(weight) }] : [];
}
