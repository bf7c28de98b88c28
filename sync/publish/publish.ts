import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, queryRows, quotePath } from '../../src/duckdb/connection.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import {
  currentFile,
  type PublishedGeneration,
  readPublished,
  serializePublished,
} from '../../src/purchase-store/published-generation.ts';
import { readWatermark } from '../capture/watermark.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import { requireSpace } from '../files/disk-space.ts';
import { syncToDisk } from '../files/sync-to-disk.ts';
import { generationName, removeOldGenerations } from './superseded-files.ts';

/** Older generations that are kept for readers that are about to open them. */
const keptGenerations = 2;
const temporary = '.tmp';

/** The signed rows of a delta, and the size of its file. */
export type DeltaSize = { readonly rows: number; readonly bytes: number };

export type Publication = {
  readonly generation: PublishedGeneration;
  readonly baseRows: number;
  readonly delta: DeltaSize;
  /** The duration of copying the delta. */
  readonly copyMs: number;
};

/**
 * Publishes the live delta with its base: copies the delta to a new name, checks and syncs the
 * copy, and then replaces `CURRENT` by rename. After a crash at any point, `CURRENT` names a
 * complete generation.
 */
export async function publish(live: DeltaFile): Promise<Publication> {
  const { connection, catalogs, directory, base, watermark } = live;
  // After a checkpoint, the file is complete without its write-ahead log.
  await connection.run(`checkpoint ${catalogs.delta}`);
  const changes = await countChanges(connection, catalogs.delta);
  const baseRows = await countRows(connection, `${catalogs.base}.purchase`);
  const file = generationName(watermark.asOf, base);
  const path = join(directory, file);
  let copyMs: number;
  try {
    copyMs = await copyLiveDelta(live, path + temporary);
    await requireContent(connection, path + temporary, watermark.snapshot, changes);
    await syncToDisk(path + temporary);
    await rename(path + temporary, path);
  } catch (error) {
    await rm(path + temporary, { force: true });
    throw error;
  }

  const delta = { rows: changes.count, bytes: (await stat(path)).size };
  const bytes = delta.bytes + (await stat(join(directory, base))).size;
  const { organizationId: _, ...shown } = watermark;
  const purchases = baseRows + changes.sum;
  const generation = { layoutVersion, file, base, ...shown, purchases, bytes };
  const current = currentFile(directory);
  await writeFile(current + temporary, serializePublished(generation));
  await syncToDisk(current + temporary);
  await rename(current + temporary, current);
  await syncToDisk(directory);
  await removeOldGenerations(directory, file, keptGenerations);
  return { generation, baseRows, delta, copyMs };
}

/** The published generation; null if it is missing, damaged or of another layout. */
export async function readUsablePublication({
  connection,
  directory,
}: DeltaFile): Promise<Publication | null> {
  try {
    const published = readPublished(directory);
    if (published === null || published.layoutVersion !== layoutVersion) return null;
    await stat(join(directory, published.base));
    const path = join(directory, published.file);
    const { count: rows, sum } = await requireContent(connection, path, published.snapshot);
    const delta = { rows, bytes: (await stat(path)).size };
    return { generation: published, baseRows: published.purchases - sum, delta, copyMs: 0 };
  } catch {
    return null;
  }
}

/** Returns the duration in milliseconds. */
async function copyLiveDelta({ path, directory }: DeltaFile, to: string): Promise<number> {
  const { size } = await stat(path);
  await requireSpace(directory, size).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOSPC') throw error;
    // Older generations are removed to make space.
    await removeOldGenerations(directory, readPublished(directory)?.file ?? null, 0);
    await requireSpace(directory, size);
  });
  const startedAt = performance.now();
  await copyFile(path, to, constants.COPYFILE_FICLONE);
  return performance.now() - startedAt;
}

async function countRows(connection: DuckDBConnection, table: string): Promise<number> {
  const [row] = await queryRows(connection, sql`select count(*) from ${raw(table)}`);
  return Number(row?.[0]);
}

type Changes = { readonly count: number; readonly sum: number };

/** The number of signed rows of a delta, and the sum of their signs. */
async function countChanges(connection: DuckDBConnection, delta: string): Promise<Changes> {
  const [row] = await queryRows(
    connection,
    sql`select count(*), coalesce(sum(sign), 0)::bigint from ${raw(delta)}.change`,
  );
  return { count: Number(row?.[0]), sum: Number(row?.[1]) };
}

/** The changes of a delta. Rejects if it cannot be opened, or has another snapshot or number of changes. */
async function requireContent(
  connection: DuckDBConnection,
  path: string,
  snapshot: string,
  changes?: Changes,
): Promise<Changes> {
  const copy = `copy_${randomBytes(4).toString('hex')}`;
  await connection.run(`attach ${quotePath(path)} as ${copy} (read_only)`);
  try {
    const found = await readWatermark(connection, copy);
    const counted = await countChanges(connection, copy);
    const isComplete =
      changes === undefined || (counted.count === changes.count && counted.sum === changes.sum);
    if (found?.watermark.snapshot !== snapshot || !isComplete) {
      throw new Error(`${path} has another snapshot or number of changes than expected`);
    }
    return counted;
  } finally {
    await detach(connection, copy);
  }
}
