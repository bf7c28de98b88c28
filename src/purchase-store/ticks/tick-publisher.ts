import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { jsonOf } from '../../process/json-file.ts';
import { replaceFileSync } from '../../process/replace-file.ts';
import { namesIn } from '../format/current.ts';
import { layoutVersion } from '../format/layout.ts';
import {
  type Exceptions,
  type LogEnds,
  type StoredTick,
  type TickFile,
  tickPath,
  ticksDirectory,
} from './published-tick.ts';
import { type Shard, shardName } from './shard.ts';

type TickPublisher = {
  /**
   * Publishes a tick. Exceptions and ends of logs that are the same object as before are not written again.
   * Not synced to the disk: `boot` tells what a crash of the machine may lose.
   */
  publish(content: TickFile): void;
  /** Writes the ends of logs, which a later tick names. */
  writeLogEnds(shard: Shard, logEnds: LogEnds): void;
  /** The files that ticks since the last `removeUnused` name. */
  namedFiles(): string[];
  /** Removes the files that the last tick does not name. */
  removeUnused(): void;
};

/** Publishes the ticks of a worker in a data folder. */
export function createTickPublisher(dataDirectory: string): TickPublisher {
  const directory = ticksDirectory(dataDirectory);
  const names = new Map<Exceptions | LogEnds, string | null>();
  let last: TickFile | null = null;

  const nameOf = (prefix: string, content: Exceptions | LogEnds): string | null => {
    let name = names.get(content);
    if (name === undefined) {
      const isEmpty = Object.keys(content).length === 0;
      name = isEmpty ? null : writeNamed(directory, prefix, content);
      names.set(content, name);
    }
    return name;
  };
  const files = () => [...new Set(names.values())].filter((name) => name !== null);

  return {
    publish(content) {
      mkdirSync(directory, { recursive: true });
      const { shard, synced } = content;
      const [exceptions, logEnds] = prefixesOf(shard);
      const stored: StoredTick = {
        ...content,
        layoutVersion,
        exceptions: nameOf(exceptions, content.exceptions),
        synced: {
          ...synced,
          exceptions: nameOf(exceptions, synced.exceptions),
          logEnds: nameOf(logEnds, synced.logEnds),
        },
      };
      replaceFileSync(tickPath(dataDirectory, shard), `${jsonOf(stored)}\n`);
      last = content;
    },

    writeLogEnds(shard, logEnds) {
      mkdirSync(directory, { recursive: true });
      const [, prefix] = prefixesOf(shard);
      nameOf(prefix, logEnds);
    },

    namedFiles: () => files().map((name) => join(directory, name)),

    removeUnused() {
      if (last === null) return;
      const { shard, exceptions, synced } = last;
      for (const each of names.keys()) {
        const isUsed = each === exceptions || each === synced.exceptions || each === synced.logEnds;
        if (!isUsed) names.delete(each);
      }
      const used = files();
      const prefixes = prefixesOf(shard);
      for (const name of namesIn(directory)) {
        const isUnused = prefixes.some((prefix) => name.startsWith(prefix)) && !used.includes(name);
        if (isUnused) rmSync(join(directory, name), { force: true });
      }
    },
  };
}

const prefixesOf = (shard: Shard): readonly [exceptions: string, logEnds: string] => [
  `${shardName(shard)}.exceptions-`,
  `${shardName(shard)}.log-ends-`,
];

/**
 * Writes a file that its content names, and returns the name. A file that has the content already may be on
 * the disk, so it is not replaced by one that is not.
 */
function writeNamed(directory: string, prefix: string, content: Exceptions | LogEnds): string {
  const text = `${jsonOf(content)}\n`;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 16);
  const name = prefix + hash;
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
