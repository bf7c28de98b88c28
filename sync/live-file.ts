import { existsSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../src/engines/duckdb/connection.ts';
import { createLayout } from '../src/engines/duckdb/layout.ts';
import { organizationDirectory } from '../src/engines/duckdb/published-generation.ts';
import { OperatorError } from '../src/operator-error.ts';
import { readWatermark, type Watermark } from './apply.ts';

/**
 * The file an organization's purchases are applied to. Only the worker opens
 * it; readers see copies.
 */
export type LiveFile = {
  readonly connection: DuckDBConnection;
  readonly catalog: string;
  readonly path: string;
  readonly directory: string;
  /** What the rows show; null until the first load is complete. */
  watermark: Watermark | null;
};

/** Opens the file, or makes an empty one where there is none that can be used. */
export async function openLiveFile(
  instance: DuckDBInstance,
  dataDirectory: string,
  organizationId: bigint,
): Promise<LiveFile> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await mkdir(directory, { recursive: true });
  const path = join(directory, 'live.duckdb');
  const catalog = `organization_${organizationId}`;
  const connection = await instance.connect();
  const live: LiveFile = { connection, catalog, path, directory, watermark: null };
  try {
    if (existsSync(path)) live.watermark = await attachExisting(live);
    if (live.watermark?.organizationId !== organizationId) await startAnew(live);
    return live;
  } catch (error) {
    await closeLiveFile(live);
    throw error;
  }
}

/** Throws the content away; what is published stays. */
export async function startAnew(live: LiveFile): Promise<void> {
  const { connection, catalog, path } = live;
  await connection.run(`detach database if exists ${catalog}`);
  await rm(path, { force: true });
  await rm(`${path}.wal`, { force: true });
  live.watermark = null;
  // From storage version 1.5 on a write-ahead log knows the file it belongs to.
  await connection.run(`attach ${quotePath(path)} as ${catalog} (storage_version 'v1.5.0')`);
  await connection.run(createLayout(catalog));
}

export async function closeLiveFile({ connection, catalog }: LiveFile): Promise<void> {
  await connection.run(`detach database if exists ${catalog}`);
  connection.closeSync();
}

/** The file's watermark; null where the file cannot be read and must be made anew. */
async function attachExisting(live: LiveFile): Promise<Watermark | null> {
  try {
    await live.connection.run(`attach ${quotePath(live.path)} as ${live.catalog}`);
    return await readWatermark(live.connection, live.catalog);
  } catch (error) {
    if (String(error).includes('Could not set lock')) {
      throw new OperatorError(`Another process has ${live.path} open: only one worker may.`);
    }
    // A lack of something is no damage: the file may be fine the next time.
    if (/Too many open files|Permission denied|No space left|Out of Memory/i.test(String(error))) {
      throw error;
    }
    return null;
  }
}
