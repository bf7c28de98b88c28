import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';
import {
  createInstance,
  type DuckDBOptions,
  type DuckDBRow,
  queryRows,
  quotePath,
} from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { errorText } from '../../src/error-text.ts';
import { layoutVersion } from '../../src/purchase-store/layout.ts';
import {
  organizationDirectory,
  type PublishedGeneration,
  readPublished,
} from '../../src/purchase-store/published-generation.ts';
import { readWatermark } from '../capture/watermark.ts';

/** An open published generation. It stays readable if the worker removes the file. */
export type PublishedFile = {
  readonly generation: PublishedGeneration;
  readonly catalog: string;
  readonly connection: DuckDBConnection;
  /** Rejects with UnreadableFileError if the file is damaged. */
  query(statement: Sql): Promise<DuckDBRow[]>;
};

/** An organization's published generations, one at a time. */
export type PublishedFiles = {
  /** Opens the newest generation, unless it is open; null if nothing is published. */
  newest(): Promise<PublishedFile | null>;
  close(): void;
};

/** The published generation cannot be read, or differs from its description in CURRENT. */
export class UnreadableFileError extends Error {}

// The worker may remove a generation before it is opened. CURRENT then names a newer one.
const maxAttempts = 10;

/** Opens generations in a separate DuckDB instance, because a damaged file may end the instance. */
export async function openPublishedFiles(
  dataDirectory: string,
  organizationId: bigint,
  options: DuckDBOptions,
): Promise<PublishedFiles> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  mkdirSync(dirname(options.spillDirectory), { recursive: true });
  const instance = await createInstance(options);
  const connection = await instance.connect();
  let open: PublishedFile | null = null;
  let opened = 0;

  const newest = async (): Promise<PublishedFile | null> => {
    for (let attempt = 1; ; attempt += 1) {
      const generation = readNewest(directory);
      if (generation === null) return null;
      if (open?.generation.file === generation.file) return open;
      if (open !== null) await connection.run(`detach ${open.catalog}`);
      open = null;
      const path = join(directory, generation.file);
      try {
        opened += 1;
        open = await attach(connection, `generation_${opened}`, path, generation, organizationId);
        return open;
      } catch (error) {
        if (existsSync(path) || attempt === maxAttempts) throw unreadable(error, path);
      }
    }
  };

  return { newest, close: () => closeInstance(instance, connection) };
}

function closeInstance(instance: DuckDBInstance, connection: DuckDBConnection): void {
  connection.closeSync();
  instance.closeSync();
}

function readNewest(directory: string): PublishedGeneration | null {
  try {
    return readPublished(directory);
  } catch (error) {
    throw unreadable(error, join(directory, 'CURRENT'));
  }
}

async function attach(
  connection: DuckDBConnection,
  catalog: string,
  path: string,
  generation: PublishedGeneration,
  organizationId: bigint,
): Promise<PublishedFile> {
  await connection.run(`attach ${quotePath(path)} as ${catalog} (read_only)`);
  try {
    if (generation.layoutVersion === layoutVersion) {
      const watermark = await readWatermark(connection, catalog);
      if (watermark?.organizationId !== organizationId) {
        throw new Error('the file is of another organization, or not complete');
      }
      if (watermark.snapshot !== generation.snapshot) {
        throw new Error('the file has another snapshot than CURRENT');
      }
    }
  } catch (error) {
    await connection.run(`detach ${catalog}`).catch(() => {});
    throw error;
  }
  const query = async (statement: Sql): Promise<DuckDBRow[]> => {
    try {
      return await queryRows(connection, statement);
    } catch (error) {
      throw unreadable(error, path);
    }
  };
  return { generation, catalog, connection, query };
}

function unreadable(error: unknown, path: string): unknown {
  if (!isDamage(error) || /INTERRUPT/i.test(String(error))) return error;
  return new UnreadableFileError(`${path} cannot be read: ${errorText(error)}`);
}
