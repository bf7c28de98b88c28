import type { DuckDBInstance } from '@duckdb/node-api';
import type { Logger } from 'pino';
import { isCorruption } from '../../src/duckdb/damage.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { findInvalidPurchase } from '../apply/invalid-purchase.ts';
import type { RetainedSnapshot } from '../capture/change-log.ts';
import type { Watermark } from '../capture/watermark.ts';
import { isDataError } from '../failure.ts';
import {
  type BaseFile,
  closeBase,
  createBases,
  finishBase,
  openUnfinishedBase,
  unfinishedBasePath,
} from './base-file.ts';
import {
  createDelta,
  type DeltaFile,
  type DeltaRole,
  deltaPath,
  type FileContext,
  openDelta,
  replaceLiveDelta,
} from './delta-file.ts';
import { removeDuckDBFile } from './duckdb-file.ts';
import { createOwnership } from './ownership.ts';

/** The writable files of an organization. Each file is opened at its first use. */
export type OrganizationFiles = {
  readonly context: FileContext;
  /** Null if there is no usable file. */
  open(role: DeltaRole): Promise<DeltaFile | null>;
  close(role: DeltaRole): Promise<void>;
  /** Closes the delta and deletes it. */
  remove(role: DeltaRole): Promise<void>;
  /** Closes the unfinished base and deletes it. */
  removeBase(): Promise<void>;
  /** The unfinished base, which may have to be created (`resetBase`). */
  openBase(): Promise<BaseFile>;
  /** Completes and closes the base, and returns its name. */
  finishBase(): Promise<string>;
  /** Creates the empty delta `next` of a complete base that shows the snapshot `watermark`. */
  createNext(base: string, watermark: Watermark): Promise<DeltaFile>;
  /** Closes both deltas, and replaces `live` by `next`. */
  replaceLive(): Promise<void>;
  /** The snapshots whose later changes an open or closed file may still need. */
  retainedSnapshots(): RetainedSnapshot[];
  /** Closes all files and the ownership of the folder. */
  release(): Promise<void>;
  /**
   * Closes the files of the role, and deletes them if they are damaged. A file that is opened
   * again shows the last commit. Returns the error to report: if a purchase caused it, an error
   * with its id.
   */
  afterFailure(role: DeltaRole, error: unknown): Promise<unknown>;
};

export function createOrganizationFiles(options: {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly log: Logger;
}): OrganizationFiles {
  const { organizationId, database, instance, dataDirectory, log } = options;
  const context = { instance, bases: createBases(instance), dataDirectory, organizationId };
  const directory = organizationDirectory(dataDirectory, organizationId);
  const ownership = createOwnership(instance, dataDirectory, organizationId);

  const slotFor = (role: DeltaRole) =>
    createFileSlot<DeltaFile>({
      async open() {
        await ownership.take();
        return openDelta(context, role);
      },
      close: (file) => file.close(),
      remove: () => removeDuckDBFile(deltaPath(directory, role)),
      snapshotOf: ({ watermark }) => watermark,
    });
  const deltas = { live: slotFor('live'), next: slotFor('next') };
  const { live, next } = deltas;
  const unfinished = createFileSlot<BaseFile>({
    async open() {
      await ownership.take();
      return openUnfinishedBase(context);
    },
    close: closeBase,
    remove: () => removeDuckDBFile(unfinishedBasePath(directory)),
    snapshotOf: ({ progress, beginning }) =>
      progress?.since ?? (beginning === null ? null : { snapshot: beginning, token: null }),
  });

  return {
    context,
    open: (role) => deltas[role].open(),
    close: (role) => deltas[role].close(),
    remove: (role) => deltas[role].remove(),
    removeBase: () => unfinished.remove(),
    openBase: async () => (await unfinished.open()) as BaseFile,
    async finishBase() {
      const file = (await unfinished.open()) as BaseFile;
      // Its snapshot is retained until `next` has it.
      unfinished.release();
      return finishBase(file);
    },
    async createNext(base, watermark) {
      const file = await createDelta(context, 'next', base, watermark);
      next.set(file);
      unfinished.closedSnapshot = null;
      return file;
    },
    async replaceLive() {
      const { connection, catalogs } = (await next.open()) as DeltaFile;
      // Closing hides the failure of a checkpoint.
      await connection.run(`checkpoint ${catalogs.delta}`);
      await next.close();
      await live.close();
      await replaceLiveDelta(directory);
      live.closedSnapshot = next.closedSnapshot;
      next.closedSnapshot = null;
    },
    retainedSnapshots: () =>
      [live, next, unfinished].flatMap((slot) => slot.retainedSnapshot() ?? []),
    async release() {
      // Committed changes are in the files, whatever error DuckDB returns here.
      for (const slot of [live, next, unfinished]) await slot.close().catch(() => {});
      await ownership.release().catch(() => {});
    },
    async afterFailure(role, error) {
      await deltas[role].close().catch(() => {});
      if (role === 'next') await unfinished.close().catch(() => {});
      if (isCorruption(error)) {
        log.error({ file: deltaPath(directory, role) }, 'file is damaged and is rebuilt');
        await deltas[role].remove();
        if (role === 'next') await unfinished.remove();
      }
      if (!isDataError(error)) return error;
      return (await findInvalidPurchase(database, organizationId).catch(() => null)) ?? error;
    },
  };
}

type FileSlot<File> = {
  /**
   * Null if there is no usable file. Calls must not overlap, because DuckDB attaches a file only
   * once. Runs use the live delta one after the other, and one build at a time uses other files.
   */
  open(): Promise<File | null>;
  /** Sets a file that was opened elsewhere. */
  set(file: File): void;
  /** Forgets the open file. The caller closes it. */
  release(): void;
  close(): Promise<void>;
  remove(): Promise<void>;
  retainedSnapshot(): RetainedSnapshot | null;
  /** Of a closed file that will be opened again. */
  closedSnapshot: RetainedSnapshot | null;
};

function createFileSlot<File>(options: {
  readonly open: () => Promise<File | null>;
  readonly close: (file: File) => Promise<void>;
  readonly remove: () => Promise<void>;
  readonly snapshotOf: (file: File) => RetainedSnapshot | null;
}): FileSlot<File> {
  let file: File | null = null;
  const slot: FileSlot<File> = {
    closedSnapshot: null,
    async open() {
      file ??= await options.open();
      return file;
    },
    set(opened) {
      file = opened;
    },
    release() {
      slot.closedSnapshot = file === null ? null : options.snapshotOf(file);
      file = null;
    },
    async close() {
      if (file === null) return;
      const closing = file;
      slot.release();
      await options.close(closing);
    },
    async remove() {
      await slot.close().catch(() => {});
      slot.closedSnapshot = null;
      await options.remove();
    },
    retainedSnapshot: () => (file === null ? slot.closedSnapshot : options.snapshotOf(file)),
  };
  return slot;
}
