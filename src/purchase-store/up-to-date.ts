import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { replaceFileSync } from '../replace-file.ts';
import { namesIn, purchasesDirectory, stampOf } from './published-generation.ts';

/**
 * What a worker found at its last look at the change log: generations that show all
 * that had been committed by then. It names each of them by its file, which is never
 * used for another one, so what it says stays true whatever happens afterwards. It lies
 * in one small file for each worker (each shard), replaced by rename at every look.
 */
export type UpToDate = {
  /** When the look began by Postgres's clock; microseconds since 1970. */
  readonly asOf: bigint;
  /** The generation's file, by organization. */
  readonly generations: ReadonlyMap<bigint, string>;
};

const stored = z.object({
  asOf: z.string().regex(/^\d+$/).transform(BigInt),
  generations: z.record(z.string(), z.string()),
});

const upToDateDirectory = (dataDirectory: string): string =>
  join(purchasesDirectory(dataDirectory), 'up-to-date');
const suffix = '.json';

/**
 * Replaces what the worker of that name said before. Not synced to the disk: what a crash
 * takes back was true, and so is what was said before it.
 */
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

/** When the worker of that name last looked; null where it never did, or the file cannot be read. */
export function readLastLook(dataDirectory: string, worker: string): Date | null {
  const content = contentOf(join(upToDateDirectory(dataDirectory), worker + suffix));
  return content === null ? null : new Date(Number(content.asOf / 1000n));
}

export type UpToDateReader = {
  /** Up to when the generation is known to show everything; null where no worker says. */
  instantOf(organizationId: bigint, file: string): bigint | null;
};

export const readAgainAfterMs = 50;

/** Follows what all workers of a data folder say, by looking again when it is asked. */
export function readUpToDate(dataDirectory: string): UpToDateReader {
  const directory = upToDateDirectory(dataDirectory);
  let said = new Map<string, { readonly stamp: string | null; readonly content: Content | null }>();
  let readAt = Number.NEGATIVE_INFINITY;

  const refresh = () => {
    if (performance.now() - readAt < readAgainAfterMs) return;
    const now: typeof said = new Map();
    for (const name of namesIn(directory)) {
      if (!name.endsWith(suffix)) continue;
      const path = join(directory, name);
      const stamp = stampOrNothing(path);
      const before = said.get(name);
      const isRead = before !== undefined && before.stamp === stamp;
      now.set(name, isRead ? before : { stamp, content: contentOf(path) });
    }
    said = now;
    readAt = performance.now();
  };

  return {
    instantOf(organizationId, file) {
      refresh();
      let latest: bigint | null = null;
      for (const { content } of said.values()) {
        if (content === null || content.generations[String(organizationId)] !== file) continue;
        if (latest === null || content.asOf > latest) latest = content.asOf;
      }
      return latest;
    },
  };
}

type Content = z.output<typeof stored>;

/** Null also where it cannot be looked at. */
function stampOrNothing(path: string): string | null {
  try {
    return stampOf(path);
  } catch {
    return null;
  }
}

/** Null where it cannot be read: then nothing was said. */
function contentOf(path: string): Content | null {
  try {
    return stored.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return null;
  }
}
