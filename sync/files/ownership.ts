import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { quotePath } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { OperatorError } from '../../src/operator-error.ts';
import { closeFolder, ignoringErrors } from '../../src/private-files.ts';
import { organizationDirectory } from '../../src/purchase-store/published-generation.ts';

/**
 * That nobody else writes in an organization's folder. The lock in Postgres is not
 * enough for that: a worker that has lost it, and does not know yet, would replace
 * what its successor has published. DuckDB locks a file that it has open, for as long
 * as the process lives; the files with purchases are closed when they are replaced,
 * so this one, empty, is locked for all of the time.
 */
export type Ownership = {
  /** Rejects with OperatorError where another process owns the folder. */
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
        throw new OperatorError(`Another process works on ${directory}: only one worker may.`);
      }
      if (!isDamage(error)) throw error;
      await rm(path, { force: true });
      await connection.run(`attach ${quotePath(path)} as ${catalog}`);
    }
  };

  const take = async (): Promise<DuckDBConnection> => {
    await mkdir(directory, { recursive: true });
    // A copy of a file has its mode: what versions before left open would stay so.
    ignoringErrors(() => closeFolder(directory));
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
        // The next one may succeed.
        taking = null;
        throw error;
      });
      await taking;
    },
    async release() {
      const connection = await taking?.catch(() => null);
      taking = null;
      if (connection == null) return;
      try {
        await connection.run(`detach database if exists ${catalog}`);
      } finally {
        connection.closeSync();
      }
    },
  };
}
