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

/** An organization's files that are written to, opened when they are needed. */
export type OrganizationFiles = {
  open(role: FileRole): Promise<PurchaseFile>;
  close(role: FileRole): Promise<void>;
  /** Closes the file, and removes it. */
  remove(role: FileRole): Promise<void>;
  /** Closes both files, and puts `next` in the place of `live`. */
  replaceLive(): Promise<void>;
  /** From which changes may still have to be told to a file, open or not, that is there. */
  retainedSnapshots(): RetainedSnapshot[];
  /** Closes what is open, and lets another process work in the folder. */
  release(): Promise<void>;
  /**
   * Whatever state a file is in, opening it again finds what was committed. Gives the
   * error to be told: where a purchase is to blame, which one.
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
  const files: Record<FileRole, PurchaseFile | null> = { live: null, next: null };
  const ownership = createOwnership(instance, dataDirectory, organizationId);
  const opening: Record<FileRole, Promise<PurchaseFile> | null> = { live: null, next: null };

  const directory = organizationDirectory(dataDirectory, organizationId);
  const roles: readonly FileRole[] = ['live', 'next'];
  /** Of files that are closed, and will be opened again. */
  const lastSnapshots: Record<FileRole, RetainedSnapshot | null> = { live: null, next: null };
  const snapshotOf = ({ watermark, progress, beginning }: PurchaseFile): RetainedSnapshot | null =>
    watermark ??
    progress?.since ??
    (beginning === null ? null : { snapshot: beginning, token: null });

  const close = async (role: FileRole): Promise<void> => {
    const file = files[role];
    if (file === null) return;
    files[role] = null;
    lastSnapshots[role] = snapshotOf(file);
    await closePurchaseFile(file);
  };

  const remove = async (role: FileRole): Promise<void> => {
    await close(role).catch(() => {});
    lastSnapshots[role] = null;
    await removePurchaseFile(purchaseFilePath(directory, role));
  };

  return {
    // Opened once, whoever asks meanwhile: a second time would be taken for damage.
    async open(role) {
      const present = files[role];
      if (present !== null) return present;
      opening[role] ??= ownership
        .take()
        .then(() => openPurchaseFile(instance, dataDirectory, organizationId, role))
        .then((file) => {
          files[role] = file;
          return file;
        })
        .finally(() => {
          opening[role] = null;
        });
      return opening[role];
    },

    close,

    remove,

    async replaceLive() {
      await close('next');
      await close('live');
      await replaceLiveFile(directory);
      lastSnapshots.live = lastSnapshots.next;
      lastSnapshots.next = null;
    },

    retainedSnapshots: () =>
      roles.flatMap((role) => {
        const file = files[role];
        const snapshot = file === null ? lastSnapshots[role] : snapshotOf(file);
        return snapshot === null ? [] : [snapshot];
      }),

    async release() {
      // Whatever DuckDB says: what was committed is in the files.
      for (const role of roles) await close(role).catch(() => {});
      await ownership.release().catch(() => {});
    },

    async afterFailure(role, error) {
      await close(role).catch(() => {});
      if (isCorruption(error)) {
        log.error({ file: purchaseFilePath(directory, role) }, 'damaged; it will be built anew');
        await remove(role);
      }
      if (!isDataError(error)) return error;
      return (await findInvalidPurchase(database, organizationId).catch(() => null)) ?? error;
    },
  };
}
