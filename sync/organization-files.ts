import type { DuckDBInstance } from '@duckdb/node-api';
import type { Logger } from 'pino';
import { organizationDirectory } from '../src/engines/duckdb/published-generation.ts';
import type { Database } from '../src/postgres/pool.ts';
import { isCorruption, isDataError, PoisonedPurchaseError } from './failure.ts';
import { createOwnership } from './ownership.ts';
import { findPoisonedPurchase } from './poisoned-purchase.ts';
import {
  closePurchaseFile,
  type FileRole,
  openPurchaseFile,
  type PurchaseFile,
  purchaseFilePath,
  removePurchaseFile,
} from './purchase-file.ts';

/** An organization's files that are written to, opened when they are needed. */
export type OrganizationFiles = {
  /** Null where the file is not open. */
  present(role: FileRole): PurchaseFile | null;
  open(role: FileRole): Promise<PurchaseFile>;
  close(role: FileRole): Promise<void>;
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

  const close = async (role: FileRole): Promise<void> => {
    const file = files[role];
    files[role] = null;
    if (file !== null) await closePurchaseFile(file);
  };

  return {
    present: (role) => files[role],

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

    async release() {
      await close('next');
      await close('live');
      await ownership.release();
    },

    async afterFailure(role, error) {
      await close(role).catch(() => {});
      if (isCorruption(error)) {
        const directory = organizationDirectory(dataDirectory, organizationId);
        const file = purchaseFilePath(directory, role);
        log.error({ file }, 'damaged; it will be built anew');
        await removePurchaseFile(file);
      }
      if (!isDataError(error)) return error;
      const purchase = await findPoisonedPurchase(database, organizationId).catch(() => null);
      return purchase === null ? error : new PoisonedPurchaseError(purchase);
    },
  };
}
