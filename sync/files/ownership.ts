import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { ignoringErrors, restrictFolder } from '../../src/private-files.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';
import { detachAndClose } from './duckdb-file.ts';

/**
 * A file lock on an organization's folder. The lock in Postgres is not enough: a worker that has
 * not noticed its loss would replace the generation of the next worker. DuckDB locks each open
 * file until the process ends. The files of purchases are closed and replaced, so the lock has
 * an empty file of its own.
 */
type Ownership = {
  /** Rejects with OperatorError if another process owns the folder. */
  take(): Promise<void>;
  release(): Promise<void>;
};

export function createOwnership(
  instance: DuckDBInstance,
  dataDirectory: string,
  organizationId: bigint,
): Ownership {
  const directory = organizationDirectory(dataDirectory, organizationId);
  const path = join(directory, 'OWNER');
  const catalog = `owner_${organizationId}`;
  let taking: Promise<DuckDBConnection> | null = null;

  const attach = async (connection: DuckDBConnection): Promise<void> => {
    try {
      await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    } catch (error) {
      if (String(error).includes('Could not set lock')) {
        throw new OperatorError(
          `Another process writes to ${directory}: only one worker may do so.`,
        );
      }
      if (!isDamage(error)) throw error;
      await rm(path, { force: true });
      await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    }
  };

  const take = async (): Promise<DuckDBConnection> => {
    await mkdir(directory, { recursive: true });
    // Copies keep the mode of a file, so files of earlier versions would stay readable by others.
    ignoringErrors(() => restrictFolder(directory));
    const connection = await instance.connect();
    try {
      await attach(connection);
      return connection;
    } catch (error) {
      connection.closeSync();
      throw error;
    }
  };

  return {
    async take() {
      taking ??= take().catch((error: unknown) => {
        // The next attempt may succeed.
        taking = null;
        throw error;
      });
      await taking;
    },
    async release() {
      const connection = await taking?.catch(() => null);
      taking = null;
      if (connection != null) await detachAndClose(connection, catalog);
    },
  };
}
