import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, quotePath } from '../src/engines/duckdb/connection.ts';
import { layoutVersion } from '../src/engines/duckdb/layout.ts';
import {
  currentFile,
  type PublishedGeneration,
  serializePublished,
} from '../src/engines/duckdb/published-generation.ts';
import { readWatermark, type Watermark } from './apply.ts';
import type { LiveFile } from './live-file.ts';

/** Generations kept beside the current one, for a reader that is about to open them. */
const keptGenerations = 2;
const temporary = '.tmp';

export type Publication = {
  readonly generation: PublishedGeneration;
  /** What copying the file took. */
  readonly copyMs: number;
};

/**
 * Makes the live file's content the generation that readers see: a checked,
 * durable copy under a new name, then a rename of the file that names it. A
 * crash at any point leaves the generation before it in place.
 */
export async function publish(
  { connection, catalog, path: livePath, directory }: LiveFile,
  watermark: Watermark,
): Promise<Publication> {
  // After a checkpoint the file alone, without its write-ahead log, is complete.
  await connection.run(`checkpoint ${catalog}`);
  const purchases = await countPurchases(connection, catalog);

  const file = `${watermark.asOf}-${randomBytes(4).toString('hex')}.duckdb`;
  const path = join(directory, file);
  const copyStartedAt = performance.now();
  await copyFile(livePath, path + temporary, constants.COPYFILE_FICLONE);
  const copyMs = performance.now() - copyStartedAt;
  await checkCopy(connection, path + temporary, watermark, purchases);
  await syncToDisk(path + temporary);
  await rename(path + temporary, path);

  const { size: bytes } = await stat(path);
  const { systemIdentifier, snapshot, asOf } = watermark;
  const generation = { layoutVersion, file, systemIdentifier, snapshot, asOf, purchases, bytes };
  const current = currentFile(directory);
  await writeFile(current + temporary, serializePublished(generation));
  await syncToDisk(current + temporary);
  await rename(current + temporary, current);
  await syncToDisk(directory);
  await removeOldGenerations(directory, file);
  return { generation, copyMs };
}

async function countPurchases(connection: DuckDBConnection, catalog: string): Promise<number> {
  const [row] = await queryRows(connection, sql`select count(*) from ${raw(catalog)}.purchase`);
  return Number(row?.[0]);
}

async function checkCopy(
  connection: DuckDBConnection,
  path: string,
  watermark: Watermark,
  purchases: number,
): Promise<void> {
  const copy = `copy_${randomBytes(4).toString('hex')}`;
  await connection.run(`attach ${quotePath(path)} as ${copy} (read_only)`);
  try {
    const found = await readWatermark(connection, copy);
    if (
      found?.snapshot !== watermark.snapshot ||
      (await countPurchases(connection, copy)) !== purchases
    ) {
      throw new Error(`the copy ${path} is not what was copied`);
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

/** Also removes what interrupted attempts left. */
async function removeOldGenerations(directory: string, current: string): Promise<void> {
  const names = await readdir(directory);
  const generations = names
    .filter((name) => /^\d+-[0-9a-f]+\.duckdb$/.test(name) && name !== current)
    .sort((a, b) => (BigInt(a.split('-')[0] ?? 0) < BigInt(b.split('-')[0] ?? 0) ? 1 : -1));
  const leftovers = names.filter((name) => name.endsWith(temporary) || name.endsWith('.tmp.wal'));
  for (const name of [...generations.slice(keptGenerations), ...leftovers]) {
    // Readers that have it open keep it until they close it.
    await rm(join(directory, name), { force: true });
  }
}
