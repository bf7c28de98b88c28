import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { encodeId } from '../../domain/public-id.ts';

export const instantText = z.string().regex(/^\d+$/).transform(BigInt);

/** A snapshot of the operational database, and the token that proves that its history includes it. */
export const watermarkFields = {
  /** The start of the snapshot's transaction, in microseconds since 1970. */
  asOf: instantText,
  /** `pg_snapshot` as text. */
  snapshot: z.string(),
  /** In the change log as long as the database's history includes the snapshot. */
  token: z.string(),
};

const logName = z.string().regex(/^log-[0-9a-f]+\.tsv$/);

/** A part of a log that CURRENT named before, or that has the changes until its successor (feed-page.ts). */
const replacedLog = z.object({
  log: logName,
  begin: z.number().int(),
  end: z.number().int(),
  /** Milliseconds since 1970. */
  replacedAt: z.number().int(),
});
export type ReplacedLog = z.output<typeof replacedLog>;

/** CURRENT in each organization's folder names the files to serve. Rename replaces the file. */
const current = z.object({
  layoutVersion: z.number().int(),
  /** The name of the base within the folder, null without a base. No other base ever has this name. */
  base: z
    .string()
    .regex(/^base-[0-9a-f]+\.duckdb$/)
    .nullable(),
  /** The name of the log within the folder. No other log ever has this name. */
  log: logName,
  /** The bytes of the log when CURRENT was written. A shorter log is damaged. */
  logBytes: z.number().int(),
  /** The organization and its database (postgres/connection/source-identity.ts). */
  source: z.string(),
  /** The fingerprint of the table and its triggers. While it stays the same, the change log has all changes. */
  fingerprint: z.string(),
  /** The tick that was published last when CURRENT was written. Later ticks include the organization. */
  tick: z.number().int(),
  /** The watermark of base and log, until a later tick includes the organization. */
  ...watermarkFields,
  /** The number of purchases when CURRENT was written. */
  purchases: z.number().int(),
  /** The change feed before `logBytes` of the log, the oldest part first. Their files may be missing. */
  replacedLogs: z.array(replacedLog).default([]),
});
export type Current = z.output<typeof current>;

/** Older layouts have other fields. */
const ofAnyLayout = z.looseObject({ layoutVersion: z.number() });

export const purchasesDirectory = (dataDirectory: string): string =>
  join(dataDirectory, 'purchases');

export const organizationDirectory = (dataDirectory: string, organizationId: bigint): string =>
  join(purchasesDirectory(dataDirectory), encodeId('organization', organizationId));

export const currentFile = (directory: string): string => join(directory, 'CURRENT');

export const serializeCurrent = (content: Current): string =>
  `${JSON.stringify({ ...content, asOf: String(content.asOf) })}\n`;

/** Null if nothing is published yet, or in another layout. Throws if CURRENT is invalid. */
export function readCurrent(directory: string, layoutVersion: number): Current | null {
  let text: string;
  try {
    text = readFileSync(currentFile(directory), 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const content = ofAnyLayout.parse(JSON.parse(text));
  return content.layoutVersion === layoutVersion ? current.parse(content) : null;
}

/** Whether the content of CURRENT is the reason why `readCurrent` threw an error. */
export const isInvalidCurrent = (error: unknown): boolean =>
  error instanceof SyntaxError || error instanceof z.ZodError;

/** Changes when rename replaces the file; null if the file is missing or not accessible. */
export function stampOf(path: string): string | null {
  try {
    const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
    return stats === undefined ? null : `${stats.ino}:${stats.mtimeNs}`;
  } catch {
    return null;
  }
}

/** The names in a folder; none if the folder cannot be read. */
export function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
