import { randomBytes } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, quotePath, runStatement } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { inTransaction } from '../../src/duckdb/transaction.ts';
import { syncToDisk } from '../../src/process/replace-file.ts';
import { organizationDirectory } from '../../src/purchase-store/format/current.ts';
import {
  createPreviousPurchases,
  type PreviousPurchases,
} from '../../src/purchase-store/format/last-purchases.ts';
import { createBaseLayout, layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { continueAfter } from './load/insert-purchases.ts';
import { type LoadProgress, readLoadProgress } from './load/load-progress.ts';

/** A base while it is written. */
export type BaseFile = {
  readonly connection: DuckDBConnection;
  readonly catalog: string;
  readonly path: string;
  readonly directory: string;
  /** The progress of a load; null before the load. */
  progress: LoadProgress | null;
  /** The last purchases of the customers of the base. */
  previous: PreviousPurchases;
};

/** The organization of a base, and the instance that opens it. */
export type BaseLocation = {
  readonly instance: DuckDBInstance;
  readonly dataDirectory: string;
  readonly organizationId: bigint;
};

/**
 * Options of bases. From version 1.5 on, a write-ahead log names its file. With the default blocks of
 * 256 KiB, a read of one row reads more of each column. DuckDB packs no integers into the bits they
 * need in blocks of 16 KiB.
 */
const newFileOptions = `storage_version 'v1.5.0', block_size 65536`;

/** The path of an incomplete load. The next worker resumes it. */
export const unfinishedBasePath = (directory: string): string =>
  join(directory, 'base.unfinished.duckdb');

/** The path of an incomplete merge. A worker that starts removes the file. */
export const mergedBasePath = (directory: string): string => join(directory, 'base.merged.duckdb');

/** Opens the unfinished base. Without progress, `resetBase` must create it. */
export async function openUnfinishedBase(
  { instance, dataDirectory, organizationId }: BaseLocation,
  pathIn: (directory: string) => string = unfinishedBasePath,
): Promise<BaseFile> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  await mkdir(directory, { recursive: true });
  const file: BaseFile = {
    connection: await instance.connect(),
    catalog: `unfinished_${organizationId}`,
    path: pathIn(directory),
    directory,
    progress: null,
    previous: createPreviousPurchases(),
  };
  try {
    if (existsSync(file.path)) await attachExisting(file);
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
    const progress = await readLoadProgress(connection, catalog);
    if (progress === null) return;
    file.previous = await continueAfter(connection, catalog);
    file.progress = progress;
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
  file.previous = createPreviousPurchases();
  await connection.run(`attach ${quotePath(path)} as ${catalog} (${newFileOptions})`);
  await inTransaction(connection, async () => {
    await connection.run(createBaseLayout(catalog));
  });
}

/** Purchases with more bytes have much text. Usual purchases have 300 bytes. */
const maxUsualBytes = 2_000;

/**
 * Makes the next row groups small if purchases have more than `maxUsualBytes` on average. DuckDB writes the last
 * row group of a file again at each checkpoint, and holds it in memory: 120,000 purchases of 60 KB
 * are seven gigabytes.
 */
export async function fitRowGroups(
  { connection, catalog, path }: BaseFile,
  bytesEach: number,
): Promise<void> {
  // Without purchases, `bytesEach` is not a number.
  if (!(bytesEach > maxUsualBytes)) return;
  await detach(connection, catalog);
  await connection.run(`attach ${quotePath(path)} as ${catalog} (row_group_size 2048)`);
}

/** Detaches the file, if it is attached, and closes the connection in any case. */
export async function closeBase({ connection, catalog }: BaseFile): Promise<void> {
  try {
    await detach(connection, catalog);
  } finally {
    connection.closeSync();
  }
}

/**
 * Completes and closes the base, gives it a new name, and returns the name. Also closes the base after a
 * failure. With `link` as `giveName`, the unfinished base keeps its old name too.
 */
export async function finishBase(
  file: BaseFile,
  giveName: (path: string, named: string) => Promise<void> = rename,
): Promise<string> {
  const { connection, catalog, path, directory } = file;
  const name = `base-${randomBytes(6).toString('hex')}.duckdb`;
  try {
    // A crash leaves the progress, and the next call repeats the rest.
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
  await giveName(path, join(directory, name));
  await syncToDisk(directory);
  return name;
}

/**
 * Removes the name of an unfinished base that is already published: a killed worker may have left the name.
 * Writing to the file would change the published base.
 */
export async function removeNameOfPublished(directory: string, published: string): Promise<void> {
  const path = unfinishedBasePath(directory);
  const [unfinished, base] = [path, join(directory, published)].map((each) =>
    statSync(each, { throwIfNoEntry: false }),
  );
  if (unfinished !== undefined && unfinished.ino === base?.ino) await rm(path);
}

/** Removes a closed file and its write-ahead log. */
export async function removeDuckDBFile(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(`${path}.wal`, { force: true });
}
