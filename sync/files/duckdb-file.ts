import { rm } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { detach } from '../../src/duckdb/connection.ts';

/**
 * Options of the files that the worker creates. From version 1.5 on, a write-ahead log names its file.
 *
 * With the default blocks of 256 KiB, each generation copies more of an almost empty delta, and a read
 * of one row reads more of each column. DuckDB packs no integers into the bits they need in blocks of
 * 16 KiB: a delta of 140,000 rows took 32 MiB instead of 18.
 */
export const newFileOptions = `storage_version 'v1.5.0', block_size 65536`;

/** Removes a closed file and its write-ahead log. */
export async function removeDuckDBFile(path: string): Promise<void> {
  await rm(path, { force: true });
  await rm(`${path}.wal`, { force: true });
}

/** Detaches a file, if it is attached, and closes the connection in any case. */
export async function detachAndClose(connection: DuckDBConnection, catalog: string): Promise<void> {
  try {
    await detach(connection, catalog);
  } finally {
    connection.closeSync();
  }
}
