import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { detach, quotePath } from '../../src/duckdb/connection.ts';
import { isDamage, isInstanceLost } from '../../src/duckdb/damage.ts';
import { OperatorError } from '../../src/process/operator-error.ts';
import { purchasesDirectory } from '../../src/purchase-store/format/current.ts';
import { type Shard, shardName } from '../../src/purchase-store/ticks/shard.ts';

/** Another process has the files of a shard open. */
export class OwnershipError extends OperatorError {}

/**
 * A file lock on the organizations of a shard. The lock in Postgres is not enough: a worker that has
 * not noticed its loss would append to the logs of the next worker. DuckDB locks each open file until
 * the process ends, so an empty database is the lock. Rejects with OwnershipError if another process
 * has it, or one for another number of shards.
 */
export async function takeOwnership(
  instance: DuckDBInstance,
  dataDirectory: string,
  shard: Shard,
): Promise<{ release(): Promise<void> }> {
  const directory = join(purchasesDirectory(dataDirectory), 'owners');
  await mkdir(directory, { recursive: true });
  const suffix = '.duckdb';
  const name = `${shardName(shard)}${suffix}`;
  const connection = await instance.connect();
  try {
    for (const other of await readdir(directory)) {
      if (!other.endsWith(suffix) || other.endsWith(`-of-${shard.of}${suffix}`)) continue;
      const path = join(directory, other);
      await lock(connection, path, 'other_owner');
      await detach(connection, 'other_owner');
      await rm(path, { force: true });
    }
    await lock(connection, join(directory, name), catalog);
  } catch (error) {
    connection.closeSync();
    throw error;
  }
  return {
    async release() {
      await detach(connection, catalog)
        .catch((error) => {
          // The end of a failed instance releases the lock.
          if (!isInstanceLost(error)) throw error;
        })
        .finally(() => connection.closeSync());
    },
  };
}

const catalog = 'owner';

async function lock(connection: DuckDBConnection, path: string, name: string): Promise<void> {
  try {
    await connection.run(`attach ${quotePath(path)} as ${name}`);
  } catch (error) {
    if (String(error).includes('Could not set lock')) {
      throw new OwnershipError(`Another process has ${path} open: only one worker may do so.`);
    }
    if (!isDamage(error)) throw error;
    await rm(path, { force: true });
    await connection.run(`attach ${quotePath(path)} as ${name}`);
  }
}
