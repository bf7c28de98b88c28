import type { DuckDBInstance } from '@duckdb/node-api';
import type { Logger } from 'pino';
import { isCorruption } from '../../src/duckdb/damage.ts';
import type { Database } from '../../src/postgres/pool.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { findInvalidPurchase } from '../apply/invalid-purchase.ts';
import type { RetainedSnapshot } from '../capture/change-log.ts';
import { isDataError } from '../failure.ts';
import { createOwnership } from './ownership.ts';
import {
  closePurchaseFile,
  type FileRole,
  openPurchaseFile,
  type PurchaseFile,
  purchaseFilePath,
  removePurchaseFile,
  replaceLiveFile,
} from './purchase-file.ts';

/** The writable files of an organization. Each file is opened at its first use. */
export type OrganizationFiles = {
  open(role: FileRole): Promise<PurchaseFile>;
  close(role: FileRole): Promise<void>;
  /** Closes the file and deletes it. */
  remove(role: FileRole): Promise<void>;
  /** Closes both files, and replaces `live` by `next`. */
  replaceLive(): Promise<void>;
  /** The snapshots whose later changes an open or closed file may still need. */
  retainedSnapshots(): RetainedSnapshot[];
  /** Closes all files and the ownership of the folder. */
  release(): Promise<void>;
  /**
   * Closes the file, and deletes it if it is damaged. A file that is opened again shows the
   * last commit. Returns the error to report: if a purchase caused it, an error with its id.
   */
  afterFailure(role: FileRole, error: unknown): Promise<unknown>;
};

export function createOrganizationFiles(options: {
  readonly organizationId: bigint;
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly log: Logger;
}): OrganizationFiles {
  const { organizationId, database, instance, dataDirectory, log } = options;
  const directory = organizationDirectory(dataDirectory, organizationId);
  const ownership = createOwnership(instance, dataDirectory, organizationId);
  const slotFor = (role: FileRole) =>
    createFileSlot(purchaseFilePath(directory, role), async () => {
      await ownership.take();
      return openPurchaseFile(instance, dataDirectory, organizationId, role);
    });
  const slots = { live: slotFor('live'), next: slotFor('next') };
  const { live, next } = slots;

  return {
    open: (role) => slots[role].open(),
    close: (role) => slots[role].close(),
    remove: (role) => slots[role].remove(),
    async replaceLive() {
      await next.close();
      await live.close();
      await replaceLiveFile(directory);
      live.closedSnapshot = next.closedSnapshot;
      next.closedSnapshot = null;
    },
    retainedSnapshots: () => [live, next].flatMap((slot) => slot.retainedSnapshot() ?? []),
    async release() {
      // Committed changes are in the files, whatever error DuckDB returns here.
      for (const slot of [live, next]) await slot.close().catch(() => {});
      await ownership.release().catch(() => {});
    },
    async afterFailure(role, error) {
      await slots[role].close().catch(() => {});
      if (isCorruption(error)) {
        log.error({ file: purchaseFilePath(directory, role) }, 'file is damaged and is rebuilt');
        await slots[role].remove();
      }
      if (!isDataError(error)) return error;
      return (await findInvalidPurchase(database, organizationId).catch(() => null)) ?? error;
    },
  };
}

type FileSlot = {
  open(): Promise<PurchaseFile>;
  close(): Promise<void>;
  remove(): Promise<void>;
  retainedSnapshot(): RetainedSnapshot | null;
  /** Of a closed file that will be opened again. */
  closedSnapshot: RetainedSnapshot | null;
};

function createFileSlot(path: string, openFile: () => Promise<PurchaseFile>): FileSlot {
  let file: PurchaseFile | null = null;
  let opening: Promise<PurchaseFile> | null = null;
  const slot: FileSlot = {
    closedSnapshot: null,
    // Concurrent calls share one promise: DuckDB attaches a file only once.
    async open() {
      if (file !== null) return file;
      opening ??= openFile()
        .then((opened) => {
          file = opened;
          return opened;
        })
        .finally(() => {
          opening = null;
        });
      return opening;
    },
    async close() {
      if (file === null) return;
      const closing = file;
      file = null;
      slot.closedSnapshot = snapshotOf(closing);
      await closePurchaseFile(closing);
    },
    async remove() {
      await slot.close().catch(() => {});
      slot.closedSnapshot = null;
      await removePurchaseFile(path);
    },
    retainedSnapshot: () => (file === null ? slot.closedSnapshot : snapshotOf(file)),
  };
  return slot;
}

function snapshotOf({ watermark, progress, beginning }: PurchaseFile): RetainedSnapshot | null {
  if (beginning === null) return watermark ?? progress?.since ?? null;
  return watermark ?? progress?.since ?? { snapshot: beginning, token: null };
}
