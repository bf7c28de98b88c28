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

/** `live` is what changes are applied to and readers get copies of; `next` is built to take its place. */
export type FileRole = 'live' | 'next';

/** A file that an organization's purchases are written to. Only the worker opens it. */
export type PurchaseFile = {
  readonly connection: DuckDBConnection;
  readonly catalog: string;
  readonly path: string;
  readonly directory: string;
  dictionaryKeys: DictionaryKeys;
  /** What the rows show; null until a load is complete. */
  watermark: Watermark | null;
  /** How far a load has come; null where none was begun, or it is complete. */
  progress: LoadProgress | null;
  /** Before a load has begun: the snapshot from which it may. */
  beginning: string | null;
};

export const purchaseFilePath = (directory: string, role: FileRole): string =>
  join(directory, `${role}.duckdb`);

/** Opens the file, or makes an empty one where there is none that can be used. */
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

/** Throws the content away; what is published stays. */
export async function reset(file: PurchaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  await connection.run(`detach database if exists ${catalog}`);
  await removePurchaseFile(path);
  file.watermark = null;
  file.progress = null;
  file.beginning = null;
  file.dictionaryKeys = createDictionaryKeys(connection, catalog);
  // From storage version 1.5 on a write-ahead log knows the file it belongs to.
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

/** Puts the closed file `next` in the place of the closed file `live`. */
export async function replaceLiveFile(directory: string): Promise<void> {
  const live = purchaseFilePath(directory, 'live');
  // A log of the old file's must not be there when the new one is opened.
  await rm(`${live}.wal`, { force: true });
  await rename(purchaseFilePath(directory, 'next'), live);
}

export async function removePurchaseFile(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(`${path}.wal`, { force: true });
}

/** Leaves the file without watermark and progress where it is damaged and must be made anew. */
async function attachExisting(file: PurchaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    file.watermark = await readWatermark(connection, catalog);
    if (file.watermark === null) file.progress = await readLoadProgress(connection, catalog);
  } catch (error) {
    if (String(error).includes('Could not set lock')) {
      throw new OperatorError(`Another process has ${path} open: only one worker may.`);
    }
    // A lack of something is no damage: the file may be fine the next time.
    if (!isDamage(error)) throw error;
  }
}
