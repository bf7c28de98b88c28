import { closeSync, fstatSync, openSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { detach, withDuckDBConnection } from '../duckdb/connection.ts';
import { createSharedFiles, type SharedFile } from '../duckdb/shared-files.ts';
import { defaultShortcuts, type Shortcuts } from '../duckdb/shortcuts.ts';
import { type ChangedPurchase, decodeRecords } from './delta/decode-records.ts';
import {
  type Applied,
  applyLines,
  createDelta,
  type Delta,
  emptyBase,
  type ReplayedPart,
} from './delta/delta.ts';
import { loadSavedDelta, type SavedDelta, writeSavedDelta } from './delta/saved-delta.ts';
import type { Current } from './format/current.ts';
import { createBaseLayout, layoutVersion, requireBase } from './format/layout.ts';
import {
  checksumBefore,
  DamagedLogError,
  linesPerBatch,
  readBatches,
  readRange,
  scanLog,
} from './format/log.ts';
import type { StoreCatalogs } from './format/relations.ts';

/** The bases that are attached to a DuckDB instance. */
export type Bases<Content> = {
  /** Attaches the base, or an empty one if `path` is null. */
  acquire(path: string | null): Promise<SharedFile<Content>>;
};

/** `open` returns the content that all users of a base share. The empty base has no descriptor. */
export function createBases<Content>(
  instance: DuckDBInstance,
  open: (descriptor: number | null) => Content,
): Bases<Content> {
  type Opened = { readonly content: Content; readonly descriptor: number };
  const files = createSharedFiles<Opened>(instance, {
    async open(connection, catalog, path) {
      await requireBase(connection, catalog, basename(path));
      const descriptor = openSync(path, 'r');
      return { descriptor, content: open(descriptor) };
    },
    close: ({ descriptor }) => closeSync(descriptor),
  });
  let empty: Promise<Content> | null = null;

  const createEmpty = async (): Promise<Content> => {
    const create = `attach ':memory:' as ${emptyBase}; ${createBaseLayout(emptyBase)}`;
    await withDuckDBConnection(instance, (connection) => connection.run(create));
    return open(null);
  };

  return {
    async acquire(path) {
      if (path !== null) {
        const { content, ...file } = await files.acquire(path);
        return { ...file, content: content.content };
      }
      empty ??= createEmpty();
      return { catalog: emptyBase, content: await empty, release: async () => {} };
    },
  };
}

/** Batches of published ticks that a delta does not show yet. */
export type PendingBatches = {
  readonly end: number;
  readonly records: number;
  readonly lines: number;
};

/**
 * An organization's base and log, opened for reading. The delta shows the first `bytes` of the log.
 * Methods throw DamagedLogError if the log is damaged.
 */
export type OpenStore<Content, Files extends NamedFiles = Current> = {
  readonly current: Files;
  readonly catalogs: StoreCatalogs;
  /** What the delta changed when the store was opened. */
  readonly applied: Applied;
  readonly base: SharedFile<Content>;
  readonly logDescriptor: number;
  /** The part of the log that the delta shows. */
  part(): LogPart;
  /** Saves the delta, so that the next reader replays less (delta/saved-delta.ts). */
  save(connection: DuckDBConnection): Promise<void>;
  /**
   * Finds the batches up to the tick `published`, which the caller has read before, so the log has them up to
   * `logEnd` (ticks/published.ts).
   */
  findPending(published: number, logEnd?: number): PendingBatches | null;
  /**
   * The purchases that changed between two ends of published batches; null if they
   * take more than `maxBytes`. Decoding 512 KiB blocks the event loop for 10 ms.
   */
  changesBetween(from: number, to: number, maxBytes: number): readonly ChangedPurchase[] | null;
  /** Applies pending batches in one transaction. After a failure, the store must be opened again. */
  apply(
    connection: DuckDBConnection,
    pending: PendingBatches,
    beforeCommit?: () => Promise<void>,
  ): Promise<Applied>;
  close(connection: DuckDBConnection): Promise<void>;
};

/** A part of a log from its beginning. */
export type LogPart = {
  readonly bytes: number;
  readonly lines: number;
  readonly records: number;
};

/** The base and the log of an organization, in CURRENT or not published yet. */
export type NamedFiles = Pick<Current, 'base' | 'log' | 'logBytes' | 'asOf'>;

/** Opens a base and a log, with the batches up to the tick `published`, which end at `logEnd` or later. */
export async function openStore<Content, Files extends NamedFiles>(
  connection: DuckDBConnection,
  bases: Bases<Content>,
  directory: string,
  current: Files,
  options: {
    readonly published: number;
    readonly logEnd?: number;
    readonly catalog: string;
    readonly shortcuts?: Shortcuts;
  },
): Promise<OpenStore<Content, Files>> {
  const { published, logEnd = current.logBytes, catalog, shortcuts = defaultShortcuts } = options;
  const base = await bases.acquire(current.base && join(directory, current.base));
  const catalogs = { base: base.catalog, delta: catalog };
  let descriptor: number | null = null;
  try {
    descriptor = openSync(join(directory, current.log), 'r');
    const part = await publishedPart(descriptor, published, logEnd);
    const log = descriptor;
    const read = (from: number) => readRange(log, from, part.bytes);
    const isShown = (saved: SavedDelta) =>
      saved.lines >= shortcuts.minSavedLines &&
      saved.position <= part.bytes &&
      saved.checksum === checksumBefore(log, 0, saved.position);
    const load: ReplayedPart['load'] = (...target) =>
      loadSavedDelta(...target, directory, current, isShown);
    const { lines, bytes } = part;
    const replayed = { path: pathOf(log), lines, bytes, read, load };
    const created = await createDelta(connection, catalogs, replayed, current.asOf, shortcuts);
    return createStore(directory, current, base, descriptor, created, part);
  } catch (error) {
    await detach(connection, catalogs.delta);
    if (descriptor !== null) closeSync(descriptor);
    await base.release();
    throw error;
  }
}

/** A descriptor still leads to a log whose name the worker has removed. */
const pathOf = (descriptor: number): string => `/dev/fd/${descriptor}`;

/** Reading this part of a log blocks the event loop for 10 ms. */
const bytesAtOnce = 8 * 2 ** 20;

/** The batches of published ticks at the beginning of a log. */
async function publishedPart(
  descriptor: number,
  published: number,
  logEnd: number,
): Promise<LogPart> {
  const { size } = fstatSync(descriptor);
  let part: LogPart = { bytes: 0, lines: 0, records: 0 };
  let pausedAt = 0;
  for (const { end, records, totalRecords } of scanLog(descriptor, 0, size, published)) {
    part = { bytes: end, lines: part.lines + records + linesPerBatch, records: totalRecords };
    if (end - pausedAt < bytesAtOnce) continue;
    pausedAt = end;
    await setImmediate();
  }
  requireEnd(part.bytes, logEnd);
  return part;
}

function requireEnd(bytes: number, logEnd: number): void {
  if (bytes < logEnd) throw new DamagedLogError(`it ends before ${logEnd}`);
}

function createStore<Content, Files extends NamedFiles>(
  directory: string,
  current: Files,
  base: SharedFile<Content>,
  descriptor: number,
  { delta, applied }: { readonly delta: Delta; readonly applied: Applied },
  replayed: LogPart,
): OpenStore<Content, Files> {
  let part = replayed;
  return {
    current,
    catalogs: delta.catalogs,
    applied,
    base,
    logDescriptor: descriptor,
    part: () => part,

    async save(connection) {
      const { base, log } = current;
      const checksum = checksumBefore(descriptor, 0, part.bytes);
      const { bytes: position, ...counts } = part;
      const saved = { layoutVersion, base, log, ...counts, position, checksum };
      await writeSavedDelta(connection, delta.catalogs.delta, directory, saved);
    },

    findPending(published, logEnd = part.bytes) {
      const { size } = fstatSync(descriptor);
      if (size < part.bytes) throw new DamagedLogError('it has become shorter');
      let pending = { end: part.bytes, records: 0, lines: 0 };
      for (const { end, records } of scanLog(descriptor, part.bytes, size, published)) {
        const lines = pending.lines + records + linesPerBatch;
        pending = { end, records: pending.records + records, lines };
      }
      requireEnd(pending.end, logEnd);
      return pending.lines === 0 ? null : pending;
    },

    changesBetween(from, to, maxBytes) {
      if (to - from > maxBytes) return null;
      const content = readRange(descriptor, from, to);
      // Compares the checksums.
      const batches = [...readBatches(content, from, Number.MAX_SAFE_INTEGER)];
      requireEnd(batches.at(-1)?.end ?? from, to);
      return decodeRecords(content);
    },

    async apply(connection, { end, records, lines }, beforeCommit) {
      const { bytes, lines: shownLines } = part;
      const next = {
        ...{ path: pathOf(descriptor), shownLines, lines, bytes: end - bytes },
        read: () => readRange(descriptor, bytes, end),
      };
      const applied = await applyLines(connection, delta, next, beforeCommit);
      part = { bytes: end, lines: part.lines + lines, records: part.records + records };
      return applied;
    },

    async close(connection) {
      try {
        await detach(connection, delta.catalogs.delta);
      } finally {
        closeSync(descriptor);
        await base.release();
      }
    },
  };
}
