import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import type { SharedFiles } from '../../src/duckdb/shared-files.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { createDeltaLayout, insertPlaceholder } from '../../src/purchase-store/layout.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';
import { createDictionaryKeys, type DictionaryKeys } from '../apply/dictionary-keys.ts';
import { createWatermark, readWatermark, type Watermark } from '../capture/watermark.ts';
import { detachAndClose, newFileOptions, removeDuckDBFile } from './duckdb-file.ts';
import { inTransaction } from './transaction.ts';

/** Changes are applied to `live`, and its copies are published. `next` replaces `live` after a build. */
export type DeltaRole = 'live' | 'next';

/** A writable delta and its base. Only the worker opens the delta. */
export type DeltaFile = {
  readonly connection: DuckDBConnection;
  readonly catalogs: StoreCatalogs;
  /** The file name of the base. */
  readonly base: string;
  readonly path: string;
  readonly directory: string;
  readonly dictionaryKeys: DictionaryKeys;
  /** The snapshot that base and delta show together. */
  watermark: Watermark;
  close(): Promise<void>;
};

/** The location of an organization's files, and the instance that opens them. */
export type FileContext = {
  readonly instance: DuckDBInstance;
  /** The bases that are attached to the instance. */
  readonly bases: SharedFiles<unknown>;
  readonly dataDirectory: string;
  readonly organizationId: bigint;
};

export const deltaPath = (directory: string, role: DeltaRole): string =>
  join(directory, `${role}.duckdb`);

/** Opens a delta and its base; null if a file is missing, damaged, or of another layout or organization. */
export async function openDelta(context: FileContext, role: DeltaRole): Promise<DeltaFile | null> {
  const { path, catalog } = locationOf(context, role);
  if (!existsSync(path)) return null;
  const connection = await context.instance.connect();
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    const found = await readWatermark(connection, catalog);
    if (found?.watermark.organizationId === context.organizationId) {
      return await withBase(context, role, connection, found.base, found.watermark);
    }
    await detachAndClose(connection, catalog);
    return null;
  } catch (error) {
    await detachAndClose(connection, catalog).catch(() => {});
    if (String(error).includes('Could not set lock')) {
      throw new OperatorError(`Another process has ${path} open: only one worker may do so.`);
    }
    // A lack of memory, space or file descriptors is not damage.
    if (isDamage(error)) return null;
    throw error;
  }
}

/** Creates an empty delta of a base that shows the snapshot `watermark`. */
export async function createDelta(
  context: FileContext,
  role: DeltaRole,
  base: string,
  watermark: Watermark,
): Promise<DeltaFile> {
  const { path, catalog } = locationOf(context, role);
  await removeDuckDBFile(path);
  const connection = await context.instance.connect();
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog} (${newFileOptions})`);
    const file = await withBase(context, role, connection, base, watermark);
    const write = inTransaction(connection, async () => {
      await connection.run(createDeltaLayout(catalog));
      await createWatermark(connection, catalog, base, watermark);
      await connection.run(insertPlaceholder(file.catalogs));
    });
    await write.catch(async (error) => {
      await file.close();
      throw error;
    });
    return file;
  } catch (error) {
    await detachAndClose(connection, catalog).catch(() => {});
    throw error;
  }
}

/** Replaces the closed delta `live` by the closed delta `next`. */
export async function replaceLiveDelta(directory: string): Promise<void> {
  const live = deltaPath(directory, 'live');
  const next = deltaPath(directory, 'next');
  if (existsSync(`${next}.wal`)) throw new Error(`${next} lacks its write-ahead log`);
  // DuckDB must not find the write-ahead log of the old file.
  await rm(`${live}.wal`, { force: true });
  await rename(next, live);
}

function locationOf({ dataDirectory, organizationId }: FileContext, role: DeltaRole) {
  const directory = organizationDirectory(dataDirectory, organizationId);
  return { directory, path: deltaPath(directory, role), catalog: `${role}_${organizationId}` };
}

async function withBase(
  context: FileContext,
  role: DeltaRole,
  connection: DuckDBConnection,
  base: string,
  watermark: Watermark,
): Promise<DeltaFile> {
  const { directory, path, catalog } = locationOf(context, role);
  const attached = await context.bases.acquire(join(directory, base));
  const catalogs = { base: attached.catalog, delta: catalog };
  return {
    connection,
    catalogs,
    base,
    path,
    directory,
    dictionaryKeys: createDictionaryKeys(connection, catalogs),
    watermark,
    close: () => detachAndClose(connection, catalog).finally(() => attached.release()),
  };
}
