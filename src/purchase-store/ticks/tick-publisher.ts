import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { jsonOf } from '../../process/json-file.ts';
import { replaceFileSync } from '../../process/replace-file.ts';
import { namesIn } from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';
import {
  type Exceptions,
  type StoredTick,
  type TickFile,
  tickPath,
  ticksDirectory,
} from './published-tick.ts';
import { type Shard, shardName } from './shard.ts';

type TickPublisher = {
  /**
   * Publishes a tick. Exceptions that are the same object as before are not written again. Not synced to the
   * disk: `boot` tells what a crash of the machine may lose.
   */
  publish(content: TickFile): void;
  /** The files of the exceptions of all ticks since the last `removeUnused`. */
  exceptionFiles(): string[];
  /** Removes the files of exceptions that the last tick does not name. */
  removeUnused(): void;
};

/** Publishes the ticks of a worker in a data folder. */
export function createTickPublisher(dataDirectory: string): TickPublisher {
  const directory = ticksDirectory(dataDirectory);
  const names = new Map<Exceptions, string | null>();
  let last: TickFile | null = null;

  const nameOf = (shard: Shard, exceptions: Exceptions): string | null => {
    let name = names.get(exceptions);
    if (name === undefined) {
      const isEmpty = Object.keys(exceptions).length === 0;
      name = isEmpty ? null : writeExceptions(directory, shard, exceptions);
      names.set(exceptions, name);
    }
    return name;
  };
  const files = () => [...new Set(names.values())].filter((name) => name !== null);

  return {
    publish(content) {
      mkdirSync(directory, { recursive: true });
      const { shard, synced } = content;
      const stored: StoredTick = {
        ...content,
        layoutVersion,
        exceptions: nameOf(shard, content.exceptions),
        synced: { ...synced, exceptions: nameOf(shard, synced.exceptions) },
      };
      replaceFileSync(tickPath(dataDirectory, shard), `${jsonOf(stored)}\n`);
      last = content;
    },

    exceptionFiles: () => files().map((name) => join(directory, name)),

    removeUnused() {
      if (last === null) return;
      const { shard, exceptions, synced } = last;
      for (const each of names.keys()) {
        if (each !== exceptions && each !== synced.exceptions) names.delete(each);
      }
      const used = files();
      for (const name of namesIn(directory)) {
        const isUnused = name.startsWith(prefixOf(shard)) && !used.includes(name);
        if (isUnused) rmSync(join(directory, name), { force: true });
      }
    },
  };
}

const prefixOf = (shard: Shard): string => `${shardName(shard)}.exceptions-`;

/**
 * Writes exceptions to a file that their content names, and returns the name. A file that has the content
 * already may be on the disk, so it is not replaced by one that is not.
 */
function writeExceptions(directory: string, shard: Shard, exceptions: Exceptions): string {
  const text = `${jsonOf(exceptions)}\n`;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const name = prefixOf(shard) + hash;
  const path = join(directory, name);
  if (contentOf(path) !== text) replaceFileSync(path, text);
  return name;
}

/** Null if the file is missing or unreadable. */
function contentOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
