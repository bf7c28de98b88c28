import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { encodeId } from '../domain/public-id.ts';

const fileName = z.string().regex(/^[\w.-]+\.duckdb$/);

/** CURRENT in each organization's folder names the published generation. Rename replaces the file. */
const published = z.object({
  layoutVersion: z.number().int(),
  /** The name of the delta within the folder. No other generation ever has this name. */
  file: fileName,
  /** The name of the base. No other base ever has this name. */
  base: fileName.default('none.duckdb'),
  /** The organization and its database, as in postgres/source-identity.ts. */
  source: z.string().default(''),
  /** With these, the worker proves that the change log is complete (sync/capture/watermark.ts). */
  fingerprint: z.string().default(''),
  token: z.string().default(''),
  /** The pg_snapshot of the rows, and its instant (microseconds since 1970). */
  snapshot: z.string(),
  asOf: z.string().regex(/^\d+$/).transform(BigInt),
  purchases: z.number().int(),
  /** The size of both files. */
  bytes: z.number().int(),
});
export type PublishedGeneration = z.output<typeof published>;

export const purchasesDirectory = (dataDirectory: string): string =>
  join(dataDirectory, 'purchases');

export const organizationDirectory = (dataDirectory: string, organizationId: bigint): string =>
  join(purchasesDirectory(dataDirectory), encodeId('organization', organizationId));

export const currentFile = (directory: string): string => join(directory, 'CURRENT');

export function serializePublished(generation: PublishedGeneration): string {
  return `${JSON.stringify({ ...generation, asOf: String(generation.asOf) })}\n`;
}

/** Null if nothing is published yet. Throws if CURRENT is invalid. */
export function readPublished(directory: string): PublishedGeneration | null {
  let text: string;
  try {
    text = readFileSync(currentFile(directory), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  return published.parse(JSON.parse(text));
}

/** The base that CURRENT names; null if nothing is published, empty if CURRENT is unreadable. */
export function publishedBase(directory: string): string | null {
  try {
    return readPublished(directory)?.base ?? null;
  } catch {
    return '';
  }
}

/** Whether a generation shows all changes that an earlier one shows: one history, a later snapshot. */
export const isLaterInHistory = (one: PublishedGeneration, earlier: PublishedGeneration): boolean =>
  one.source === earlier.source &&
  one.fingerprint === earlier.fingerprint &&
  one.asOf >= earlier.asOf;

/** Changes when rename replaces the file; null if there is no file. */
export function stampOf(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.ino}:${stats.mtimeNs}`;
}

/** The names in a folder; none if the folder is unreadable. */
export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
