import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, quotePath } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import {
  currentFile,
  type PublishedGeneration,
  readPublished,
  serializePublished,
} from '../../src/purchase-store/published-generation.ts';
import { readWatermark } from '../capture/watermark.ts';
import { hasSpace, requireSpace } from '../files/disk-space.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';

/** Older generations that are kept for readers that are about to open them. */
const keptGenerations = 2;
const temporary = '.tmp';

export type Publication = {
  readonly generation: PublishedGeneration;
  /** The duration of copying the file. */
  readonly copyMs: number;
};

/**
 * Publishes the live file: copies it to a new name, checks and syncs the copy, and then replaces
 * `CURRENT` by rename. After a crash at any point, `CURRENT` names a complete generation.
 */
export async function publish(live: PurchaseFile): Promise<Publication> {
  const { connection, catalog, directory, watermark } = live;
  if (watermark === null) throw new Error('the live file has no watermark');
  // After a checkpoint, the file is complete without its write-ahead log.
  await connection.run(`checkpoint ${catalog}`);
  const purchases = await countPurchases(connection, catalog);
  const file = `${watermark.asOf}-${randomBytes(4).toString('hex')}.duckdb`;
  const path = join(directory, file);
  let copyMs: number;
  try {
    copyMs = await copyLiveFile(live, path + temporary);
    await requireContent(connection, path + temporary, watermark.snapshot, purchases);
    await syncToDisk(path + temporary);
    await rename(path + temporary, path);
  } catch (error) {
    await rm(path + temporary, { force: true });
    throw error;
  }

  const { size: bytes } = await stat(path);
  const { organizationId: _, ...shown } = watermark;
  const generation = { layoutVersion, file, ...shown, purchases, bytes };
  const current = currentFile(directory);
  await writeFile(current + temporary, serializePublished(generation));
  await syncToDisk(current + temporary);
  await rename(current + temporary, current);
  await syncToDisk(directory);
  await removeOldGenerations(directory, file, keptGenerations);
  return { generation, copyMs };
}

/** The published generation; null if it is missing, damaged or of another layout. */
export async function readUsablePublication({
  connection,
  directory,
}: PurchaseFile): Promise<PublishedGeneration | null> {
  try {
    const published = readPublished(directory);
    if (published === null || published.layoutVersion !== layoutVersion) return null;
    const path = join(directory, published.file);
    await requireContent(connection, path, published.snapshot, published.purchases);
    return published;
  } catch {
    return null;
  }
}

/** Returns the duration in milliseconds. */
async function copyLiveFile(
  { path: livePath, directory }: PurchaseFile,
  to: string,
): Promise<number> {
  const { size } = await stat(livePath);
  if (!(await hasSpace(directory, size))) {
    // A new generation is worth more than older ones.
    await removeOldGenerations(directory, readPublished(directory)?.file ?? null, 0);
    await requireSpace(directory, size);
  }
  const startedAt = performance.now();
  await copyFile(livePath, to, constants.COPYFILE_FICLONE);
  return performance.now() - startedAt;
}

async function countPurchases(connection: DuckDBConnection, catalog: string): Promise<number> {
  const [row] = await queryRows(connection, sql`select count(*) from ${raw(catalog)}.purchase`);
  return Number(row?.[0]);
}

/** Rejects if the file cannot be opened, or has another snapshot or number of purchases. */
async function requireContent(
  connection: DuckDBConnection,
  path: string,
  snapshot: string,
  purchases: number,
): Promise<void> {
  const copy = `copy_${randomBytes(4).toString('hex')}`;
  await connection.run(`attach ${quotePath(path)} as ${copy} (read_only)`);
  try {
    const found = await readWatermark(connection, copy);
    if (found?.snapshot !== snapshot || (await countPurchases(connection, copy)) !== purchases) {
      throw new Error(`${path} has another snapshot or number of purchases than expected`);
    }
  } finally {
    await connection.run(`detach ${copy}`);
  }
}

async function syncToDisk(path: string): Promise<void> {
  const handle = await open(path, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Also removes the files of interrupted attempts. */
async function removeOldGenerations(
  directory: string,
  current: string | null,
  kept: number,
): Promise<void> {
  const names = await readdir(directory);
  const generations = names
    .filter((name) => /^\d+-[0-9a-f]+\.duckdb$/.test(name) && name !== current)
    .sort((a, b) => (BigInt(a.split('-')[0] ?? 0) < BigInt(b.split('-')[0] ?? 0) ? 1 : -1));
  const leftovers = names.filter((name) => /^\d+-[0-9a-f]+\.duckdb\.tmp(\.wal)?$/.test(name));
  for (const name of [...generations.slice(kept), ...leftovers]) {
    // Readers with an open file keep the content until they close the file.
    await rm(join(directory, name), { force: true });
  }
}
