import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readJsonFile } from '../json-file.ts';
import { replaceFileSync } from '../replace-file.ts';
import { namesIn, purchasesDirectory, stampOf } from './published-generation.ts';

/**
 * A poll of the change log: the generations that show all changes committed before it. File names
 * are never reused, so a record stays true. Each worker (shard) replaces its own small file by
 * rename at every poll.
 */
type UpToDate = {
  /** The beginning of the poll by Postgres's clock; microseconds since 1970. */
  readonly asOf: bigint;
  /** The files of the generations, by organization. */
  readonly generations: ReadonlyMap<bigint, string>;
};

const stored = z.object({
  asOf: z.string().regex(/^\d+$/).transform(BigInt),
  generations: z.record(z.string(), z.string()),
});

const upToDateDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'up-to-date');
const suffix = '.json';

/** Replaces the worker's record. Not synced to the disk, because an older record is true as well. */
export function writeUpToDate(
  dataDirectory: string,
  worker: string,
  { asOf, generations }: UpToDate,
): void {
  const directory = upToDateDirectory(dataDirectory);
  const content = JSON.stringify({
    asOf: String(asOf),
    generations: Object.fromEntries(generations),
  });
  mkdirSync(directory, { recursive: true });
  replaceFileSync(join(directory, worker + suffix), content);
}

/** The instant of the worker's last poll; null if there is no readable record. */
export function readLastPoll(dataDirectory: string, worker: string): Date | null {
  const path = join(upToDateDirectory(dataDirectory), worker + suffix);
  const content = readJsonFile(path, stored);
  return content === null ? null : new Date(Number(content.asOf / 1000n));
}

export type UpToDateReader = {
  /** The instant up to which the generation shows all changes; null if no worker confirms one. */
  instantOf(organizationId: bigint, file: string): bigint | null;
};

const maxRecordAgeMs = 50;

/** Reads the records of all workers of a data folder, at most once in `maxRecordAgeMs`. */
export function readUpToDate(dataDirectory: string): UpToDateReader {
  const directory = upToDateDirectory(dataDirectory);
  let records = new Map<
    string,
    { readonly stamp: string | null; readonly content: Content | null }
  >();
  let readAt = Number.NEGATIVE_INFINITY;

  const refresh = () => {
    if (performance.now() - readAt < maxRecordAgeMs) return;
    const latest: typeof records = new Map();
    for (const name of namesIn(directory)) {
      if (!name.endsWith(suffix)) continue;
      const path = join(directory, name);
      const stamp = stampOrNothing(path);
      const known = records.get(name);
      latest.set(
        name,
        known?.stamp === stamp ? known : { stamp, content: readJsonFile(path, stored) },
      );
    }
    records = latest;
    readAt = performance.now();
  };

  return {
    instantOf(organizationId, file) {
      refresh();
      let latest: bigint | null = null;
      for (const { content } of records.values()) {
        if (content === null || content.generations[String(organizationId)] !== file) continue;
        if (latest === null || content.asOf > latest) latest = content.asOf;
      }
      return latest;
    },
  };
}

type Content = z.output<typeof stored>;

/** Null also if the file is not accessible. */
function stampOrNothing(path: string): string | null {
  try {
    return stampOf(path);
  } catch {
    return null;
  }
}
