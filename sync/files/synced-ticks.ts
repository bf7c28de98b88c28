import { existsSync } from 'node:fs';
import PQueue from 'p-queue';
import { syncToDisk } from '../../src/process/replace-file.ts';
import {
  type LogEnds,
  readBootId,
  type SyncedTick,
  type Tick,
  type TickFile,
  tickPath,
  ticksDirectory,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';
import { createTickPublisher } from '../../src/purchase-store/ticks/tick-publisher.ts';
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
