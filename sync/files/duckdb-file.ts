import { rm } from 'node:fs/promises';
import type { DuckDBConnection } from '@duckdb/node-api';
import { detach } from '../../src/duckdb/connection.ts';

/** The version of files that the worker creates: from 1.5 on, a write-ahead log names its file. */
export const storageVersion = `storage_version 'v1.5.0'`;

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
