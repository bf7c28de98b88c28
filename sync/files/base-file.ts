import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rename } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, quotePath, runStatement } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { createSharedFiles, type SharedFiles } from '../../src/duckdb/shared-files.ts';
import { createBaseLayout, layoutVersion, requireBase } from '../../src/purchase-store/layout.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { type LoadProgress, readLoadProgress } from '../capture/watermark.ts';
import type { FileContext } from './delta-file.ts';
import { detachAndClose, newFileOptions, removeDuckDBFile } from './duckdb-file.ts';
import { syncToDisk } from './sync-to-disk.ts';
import { inTransaction } from './transaction.ts';

/** A base while it is written. */
export type BaseFile = {
  readonly connection: DuckDBConnection;
  readonly catalog: string;
  readonly path: string;
  readonly directory: string;
  /** The progress of a load; null before the load. */
  progress: LoadProgress | null;
  /** A snapshot from before the start of a load: the change log is retained from there. */
  beginning: string | null;
};

export const unfinishedBasePath = (directory: string): string =>
  join(directory, 'base.unfinished.duckdb');

/** Opens the unfinished base. Without progress, `resetBase` must create it. */
export async function openUnfinishedBase({
  instance,
  dataDirectory,
  organizationId,
}: FileContext): Promise<BaseFile> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await mkdir(directory, { recursive: true });
  const file: BaseFile = {
    connection: await instance.connect(),
    catalog: `unfinished_${organizationId}`,
    path: unfinishedBasePath(directory),
    directory,
    progress: null,
    beginning: null,
  };
  try {
    if (existsSync(file.path)) await attachExisting(file);
    if (file.progress?.since.organizationId !== organizationId) file.progress = null;
    return file;
  } catch (error) {
    await closeBase(file).catch(() => {});
    throw error;
  }
}

async function attachExisting(file: BaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  try {
    await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    file.progress = await readLoadProgress(connection, catalog);
  } catch (error) {
    // A lack of memory, space or file descriptors is not damage.
    if (!isDamage(error)) throw error;
  }
}

/** Creates an empty unfinished base, in the place of any other. */
export async function resetBase(file: BaseFile): Promise<void> {
  const { connection, catalog, path } = file;
  await detach(connection, catalog);
  await removeDuckDBFile(path);
  file.progress = null;
  file.beginning = null;
  await connection.run(`attach ${quotePath(path)} as ${catalog} (${newFileOptions})`);
  await inTransaction(connection, async () => {
    await connection.run(createBaseLayout(catalog));
  });
}

export const closeBase = ({ connection, catalog }: BaseFile): Promise<void> =>
  detachAndClose(connection, catalog);

/** Completes the base, and gives it a name of its own, which is returned. Closes it in any case. */
export async function finishBase(file: BaseFile): Promise<string> {
  const { connection, catalog, path, directory } = file;
  const name = `base-${randomBytes(6).toString('hex')}.duckdb`;
  try {
    // A crash before the rename leaves the progress, and the next call repeats the rest.
    await connection.run(`delete from ${catalog}.base`);
    await runStatement(
      connection,
      sql`insert into ${raw(catalog)}.base values (${layoutVersion}, ${name})`,
    );
    await connection.run(`checkpoint ${catalog}`);
  } finally {
    await closeBase(file);
  }
  await syncToDisk(path);
  await rename(path, join(directory, name));
  await syncToDisk(directory);
  return name;
}

/** Attaches complete bases to an instance. */
export const createBases = (instance: FileContext['instance']): SharedFiles<null> =>
  createSharedFiles(instance, {
    async open(connection, catalog, path) {
      await requireBase(connection, catalog, basename(path));
      return null;
    },
    close() {},
  });
