import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { encodeId } from '../domain/public-id.ts';

/**
 * What the worker publishes and the API reads: in each organization's folder a
 * small file that names the generation to serve, replaced by rename.
 */
const published = z.object({
  layoutVersion: z.number().int(),
  /** The generation's file name within the folder; never used twice. */
  file: z.string().regex(/^[\w.-]+\.duckdb$/),
  /** Which organization of which database it was read from; no other one may be answered. */
  source: z.string().default(''),
  /** What tells whether changes since the snapshot can still be told (sync/capture/watermark.ts). */
  fingerprint: z.string().default(''),
  token: z.string().default(''),
  /** The pg_snapshot whose rows it shows, and when that was taken (microseconds since 1970). */
  snapshot: z.string(),
  asOf: z.string().regex(/^\d+$/).transform(BigInt),
  purchases: z.number().int(),
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

/** Null where nothing is published yet. Throws where the file is not what it should be. */
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

/** The file that CURRENT names: null where nothing is published, empty where CURRENT cannot be read. */
export function publishedFileName(directory: string): string | null {
  try {
    return readPublished(directory)?.file ?? null;
  } catch {
    return '';
  }
}

/** Differs where a file that is replaced by rename was replaced; null where there is none. */
export function stampOf(path: string): string | null {
  const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.ino}:${stats.mtimeNs}`;
}

/** What lies in a folder; nothing where it cannot be read. */
export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
