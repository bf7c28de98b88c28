import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { createLayout } from '../../src/purchase-store/layout.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { createDictionaryKeys, type DictionaryKeys } from '../apply/dictionary-keys.ts';
import {
  createLoadProgress,
  type LoadProgress,
  readLoadProgress,
  readWatermark,
  type Watermark,
} from '../capture/watermark.ts';

/** Changes are applied to `live`, and its copies are published. `next` is built to replace `live`. */
export type FileRole = 'live' | 'next';

/** A writable file of an organization's purchases. Only the worker opens it. */
export type PurchaseFile = {
  readonly connection: DuckDBConnection;
  readonly catalog: string;
  readonly path: string;
  readonly directory: string;
  dictionaryKeys: DictionaryKeys;
  /** The snapshot that the rows show; null until a load is complete. */
  watermark: Watermark | null;
  /** The progress of a load; null before and after the load. */
  progress: LoadProgress | null;
  /** A snapshot from before the start of a load: the change log is retained from there. */
  beginning: string | null;
};

export const purchaseFilePath = (directory: string, role: FileRole): string =>
  join(directory, `${role}.duckdb`);

/** Opens the file, or creates an empty one if the file is missing, damaged or of another layout. */
export async function openPurchaseFile(
  instance: DuckDBInstance,
  dataDirectory: string,
  organizationId: bigint,
  role: FileRole,
): Promise<PurchaseFile> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await mkdir(directory, { recursive: true });
  const path = purchaseFilePath(directory, role);
  const catalog = `${role}_${organizationId}`;
  const connection = await instance.connect();
  const file: PurchaseFile = {
    connection,
    catalog,
    path,
    directory,
    dictionaryKeys: createDictionaryKeys(connection, catalog),
    watermark: null,
    progress: null,
    beginning: null,
  };
  try {
    if (existsSync(path)) await attachExisting(file);
    const owner = (file.watermark ?? file.progress?.since)?.organizationId;
    if (owner !== organizationId) await reset(file);
    return file;
  } catch (error) {
    await closePurchaseFile(file).catch(() => {});
    throw error;
  }
}

/** Replaces the file by an empty one. Published generations stay. */
export async function reset(file: PurchaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  await connection.run(`detach database if exists ${catalog}`);
  await removePurchaseFile(path);
  file.watermark = null;
  file.progress = null;
  file.beginning = null;
  file.dictionaryKeys = createDictionaryKeys(connection, catalog);
  // From storage version 1.5 on, a write-ahead log names its file.
  await connection.run(`attach ${quotePath(path)} as ${catalog} (storage_version 'v1.5.0')`);
  await connection.run(createLayout(catalog));
  await connection.run(createLoadProgress(catalog));
}

export async function closePurchaseFile({ connection, catalog }: PurchaseFile): Promise<void> {
  try {
    await connection.run(`detach database if exists ${catalog}`);
  } finally {
    connection.closeSync();
  }
}

/** Replaces the closed file `live` by the closed file `next`. */
export async function replaceLiveFile(directory: string): Promise<void> {
  const live = purchaseFilePath(directory, 'live');
  // DuckDB must not find the write-ahead log of the old file.
  await rm(`${live}.wal`, { force: true });
  await rename(purchaseFilePath(directory, 'next'), live);
}

export async function removePurchaseFile(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(`${path}.wal`, { force: true });
}

/** Attaches the file. If the file is damaged, watermark and progress stay null. */
async function attachExisting(file: PurchaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    file.watermark = await readWatermark(connection, catalog);
    if (file.watermark === null) file.progress = await readLoadProgress(connection, catalog);
  } catch (error) {
    if (String(error).includes('Could not set lock')) {
      throw new OperatorError(`Another process has ${path} open: only one worker may do so.`);
    }
    // A lack of memory, space or file descriptors is not damage.
    if (!isDamage(error)) throw error;
  }
}
