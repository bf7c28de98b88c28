import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../src/postgres/connection/pool.ts';
import { requireSpace } from '../../src/process/disk-space.ts';
import { replaceFile } from '../../src/process/replace-file.ts';
import {
  type Current,
  currentFile,
  organizationDirectory,
  serializeCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { appendBatches } from '../../src/purchase-store/format/log.ts';
import { publishedOf } from '../../src/purchase-store/ticks/published.ts';
import {
  type LogEnds,
  newestTick,
  readTicks,
  type TickFile,
} from '../../src/purchase-store/ticks/published-tick.ts';
import { everyOrganization, type Shard } from '../../src/purchase-store/ticks/shard.ts';
import type { Watermark } from '../capture/watermark.ts';
import { DamagedFilesError } from '../describe-failure.ts';
import { maxLogBytes, TooManyBytesError } from '../tick/byte-limits.ts';
import { type Store, storedFrom } from '../tick/store.ts';
import {
  type ChangesRetention,
  changesIn,
  noRetention,
  type PublishedLog,
  readFiles,
  recoverPublished,
  retainedLogs,
} from './log-files.ts';
import { createSyncedTicks } from './synced-ticks.ts';
import {
  isUnfinishedBase,
  removeOrganizationFolder,
  removeOrphanedFolders,
  removeUnusedFiles,
} from './unused-files.ts';

export type FileStore = Store & {
  /** Null if nothing is published. */
  published(organizationId: bigint): PublishedLog | null;
  /** Notes how many records the saved delta of a log shows. */
  noteSaved(organizationId: bigint, log: string, records: number): void;
  /** Replaces CURRENT, and removes the files that it does not name. */
  replace(organizationId: bigint, next: Omit<PublishedLog, 'endTick'>): Promise<void>;
};

export type FileStoreOptions = Partial<ChangesRetention> & {
  readonly database: Database;
  readonly dataDirectory: string;
  /** All organizations by default. */
  readonly shard?: Shard | undefined;
};

/** Publishes DuckDB files and logs in the data folder. */
export function createFileStore(options: FileStoreOptions): FileStore {
  const { database, dataDirectory, shard = everyOrganization } = options;
  const retention = { ...noRetention, ...options };
  const logs = new Map<bigint, PublishedLog>();
  const unsynced = new Set<string>();
  /** A kill may have left files of builds in the folders of these organizations. */
  const unchecked = new Set<bigint>();
  const directoryOf = (id: bigint) => organizationDirectory(dataDirectory, id);
  const appendOne = (id: bigint, tick: number, lines: Buffer): void => {
    const log = logs.get(id);
    if (log === undefined) throw new Error('nothing is published');
    if (changesIn(log).changeBytes + lines.length > maxLogBytes) throw new TooManyBytesError(id);
    const path = join(directoryOf(id), log.current.log);
    log.end = appendBatches(path, log.end, { tick, lines });
    log.endTick = tick;
    unsynced.add(path);
  };
  /** The ends of logs since a tick; a loop, because there may be thousands. */
  const logEndsSince = (tick: number): LogEnds => {
    const ends: Record<string, number> = {};
    for (const [id, { end, endTick }] of logs) {
      if (endTick > tick) ends[String(id)] = end.bytes;
    }
    return ends;
  };

  const ticks = createSyncedTicks(dataDirectory, shard, unsynced, logEndsSince);
  /** The ticks when the worker started. */
  let started: readonly TickFile[] = [];

  return {
    async readTicks() {
      started = readTicks(dataDirectory);
      ticks.continueFrom(started);
      return started;
    },

    async recover(id, published) {
      const before = logs.get(id);
      logs.delete(id);
      if (before === undefined) unchecked.add(id);
      const directory = directoryOf(id);
      const current = readFiles(directory);
      if (current === null && before !== undefined)
        throw new DamagedFilesError('CURRENT is missing');
      if (current === null) return;
      const logEnd =
        before?.current.log === current.log && before.endTick <= published
          ? before.end.bytes
          : publishedOf(id, current, newestTick(started, id)).logEnd;
      const endTick = published + 1;
      // Readers may have damaged files open, so the watermark and the end of these files stay known.
      const damaged = { bytes: logEnd, totalRecords: 0 };
      logs.set(id, { current, end: damaged, endTick, isDamaged: true });
      logs.set(id, {
        current,
        end: recoverPublished(directory, current, published, logEnd),
        endTick,
      });
    },

    storedOf(id) {
      const log = logs.get(id);
      return log === undefined ? null : storedFrom(log.current);
    },

    async append(tick, changes) {
      const failures = new Map<bigint, unknown>();
      let bytes = 0;
      for (const { lines } of changes.values()) bytes += lines.length;
      // A full disk stops Postgres, so a reserve stays free.
      requireSpace(dataDirectory, bytes);
      for (const [id, { lines }] of changes) {
        try {
          appendOne(id, tick, lines);
        } catch (error) {
          failures.set(id, error);
        }
      }
      return failures;
    },

    publish: ticks.publish,
    sync: ticks.sync,

    isPublished(id, file) {
      const { base, log } = logs.get(id)?.current ?? {};
      return file === base || file === log || file === 'CURRENT';
    },

    sizeOf(id) {
      const log = logs.get(id);
      if (log === undefined) return null;
      return { purchases: log.current.purchases, ...changesIn(log) };
    },

    async remove(id) {
      logs.delete(id);
      await removeOrganizationFolder(dataDirectory, id);
    },

    async cleanUp(isInUse, isBuilding) {
      for (const id of unchecked) {
        const log = logs.get(id);
        if (log === undefined || isBuilding(id)) continue;
        unchecked.delete(id);
        // A load that was interrupted resumes.
        removeUnusedFiles(directoryOf(id), log.current, isUnfinishedBase);
        await setImmediate();
      }
      for (const [id, log] of logs) {
        const { replacedLogs } = log.current;
        const retained = retainedLogs(replacedLogs, retention);
        if (retained.length === replacedLogs.length) continue;
        // CURRENT still names their files. Readers take a missing file for a removed one.
        log.current = { ...log.current, replacedLogs: retained };
        for (const { log: name } of replacedLogs.slice(0, replacedLogs.length - retained.length)) {
          await rm(join(directoryOf(id), name), { force: true });
        }
      }
      await removeOrphanedFolders(database, dataDirectory, shard, isInUse);
    },

    published: (id) => logs.get(id) ?? null,

    noteSaved(id, name, records) {
      const log = logs.get(id);
      if (log?.current.log === name) log.savedRecords = records;
    },

    async replace(id, { current, ...rest }) {
      const directory = directoryOf(id);
      const path = currentFile(directory);
      const replacedLogs = retainedLogs(current.replacedLogs, retention);
      const next = { ...current, replacedLogs };
      await replaceFile(path, serializeCurrent(next));
      logs.set(id, { current: next, ...rest, endTick: next.tick + 1 });
      unsynced.add(path);
      for (const { log } of [...replacedLogs, next]) unsynced.add(join(directory, log));
      removeUnusedFiles(directory, next);
    },

    close: async () => {},
  };
}

/** The content of CURRENT for files that show `watermark`. */
export function currentOf(
  source: string,
  files: Pick<Current, 'base' | 'log' | 'logBytes' | 'purchases' | 'replacedLogs'>,
  tick: number,
  { asOf, snapshot, token, fingerprint }: Watermark,
): Current {
  return { layoutVersion, ...files, source, fingerprint, tick, asOf, snapshot, token };
}
