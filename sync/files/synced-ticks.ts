import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import PQueue from 'p-queue';
import { jsonOf } from '../../src/process/json-file.ts';
import { replaceFileSync, syncToDisk } from '../../src/process/replace-file.ts';
import { namesIn } from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import {
  type Exceptions,
  type LogEnds,
  readBootId,
  type StoredTick,
  type SyncedTick,
  type Tick,
  type TickFile,
  tickPath,
  ticksDirectory,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import type { Store } from '../tick/store.ts';

type SyncedTicks = Pick<Store, 'publish' | 'sync'> & {
  /** To be called before the first `publish`, with all ticks of the folder. */
  continueFrom(ticks: readonly TickFile[]): void;
};

const concurrentSyncs = 8;

/**
 * Publishes the ticks of a shard. Each of them states the last one whose batches are on the disk. `sync`
 * moves this one: it syncs the files `unsynced`, and removes their names.
 */
export function createSyncedTicks(
  dataDirectory: string,
  shard: Shard,
  unsynced: Set<string>,
  /** The ends of logs that have changed since a tick. */
  logEndsSince: (tick: number) => LogEnds,
): SyncedTicks {
  const publisher = createTickPublisher(dataDirectory);
  const boot = readBootId();
  let last: Tick | null = null;
  let synced: SyncedTick | null = null;

  /** After a failure, the next call syncs all of them again. */
  const syncFiles = async (): Promise<void> => {
    const paths = [...unsynced, ...publisher.namedFiles(), ticksDirectory(dataDirectory)];
    unsynced.clear();
    const queue = new PQueue({ concurrency: concurrentSyncs });
    await queue.addAll(paths.map((path) => () => syncIfPresent(path))).catch((error) => {
      for (const path of paths) unsynced.add(path);
      throw error;
    });
  };

  return {
    continueFrom(ticks) {
      const own = ticks.find((tick) => shardName(tick.shard) === shardName(shard));
      synced = own?.synced ?? null;
    },

    async publish(tick) {
      // Without a synced tick, CURRENT covers all batches on the disk.
      synced ??= { ...withoutSource(tick), tick: 0, exceptions: {}, logEnds: {} };
      publisher.publish({ ...tick, synced, boot, logEnds: logEndsSince(synced.tick) });
      last = tick;
    },

    async sync(exclusively, publishAgain) {
      const onDisk = await exclusively(async () => {
        if (last === null) throw new Error('no tick is published');
        return { ...withoutSource(last), logEnds: logEndsSince(Number.NEGATIVE_INFINITY) };
      });
      publisher.writeLogEnds(shard, onDisk.logEnds);
      await syncFiles();
      await exclusively(() => {
        synced = onDisk;
        return publishAgain();
      });
      await syncToDisk(tickPath(dataDirectory, shard));
      await syncToDisk(ticksDirectory(dataDirectory));
      publisher.removeUnused();
      return onDisk.snapshot;
    },
  };
}

const withoutSource = ({ tick, asOf, snapshot, token, exceptions }: Tick) => ({
  tick,
  asOf,
  snapshot,
  token,
  exceptions,
});

/** A log may have been replaced or deleted meanwhile. */
async function syncIfPresent(path: string): Promise<void> {
  if (!existsSync(path)) return;
  await syncToDisk(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
}

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
