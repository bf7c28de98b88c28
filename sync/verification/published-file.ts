import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import type { Sql } from 'sql-template-tag';
import {
  createInstance,
  type DuckDBOptions,
  type DuckDBRow,
  detach,
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
import type { StoreCatalogs } from '../../src/purchase-store/relations.ts';
import { readWatermark } from '../capture/watermark.ts';
import { createBases } from '../files/base-file.ts';
import { fileContent } from './file-content.ts';
import {
  type PublishedContent,
  type PublishedContents,
  requireLayout,
  UnreadableError,
} from './published-content.ts';

// The worker may remove a generation before it is opened. CURRENT then names a newer one.
const maxAttempts = 10;

type OpenContent = { readonly content: PublishedContent; release(): Promise<void> };

/** Opens generations in a separate DuckDB instance, because a damaged file may end the instance. */
export async function openPublishedFiles(
  dataDirectory: string,
  organizationId: bigint,
  options: DuckDBOptions,
): Promise<PublishedContents> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  mkdirSync(dirname(options.spillDirectory), { recursive: true });
  const instance = await createInstance(options);
  const connection = await instance.connect();
  const bases = createBases(instance);
  let open: OpenContent | null = null;
  let opened = 0;

  const attach = async (generation: PublishedGeneration): Promise<OpenContent> => {
    const basePath = join(directory, generation.base);
    const base = await bases.acquire(basePath).catch((error) => {
      throw unreadable(error, basePath);
    });
    opened += 1;
    const catalogs = { base: base.catalog, delta: `delta_${opened}` };
    const path = join(directory, generation.file);
    try {
      await connection.run(`attach ${quotePath(path)} as ${catalogs.delta} (read_only)`);
      await requireDescribed(connection, catalogs.delta, generation, organizationId);
    } catch (error) {
      await detach(connection, catalogs.delta).catch(() => {});
      await base.release();
      throw unreadable(error, path);
    }
    const release = async () => {
      await detach(connection, catalogs.delta);
      await base.release();
    };
    return publishedFile(connection, catalogs, directory, generation, release);
  };

  const newest = async (): Promise<PublishedContent | null> => {
    for (let attempt = 1; ; attempt += 1) {
      const generation = readNewest(directory);
      if (generation === null) return null;
      requireLayout(generation.layoutVersion, layoutVersion);
      if (open?.content.generation.name === generation.file) return open.content;
      const previous = open;
      open = null;
      try {
        open = await attach(generation);
        return open.content;
      } catch (error) {
        const paths = [generation.base, generation.file].map((name) => join(directory, name));
        const isComplete = paths.every((path) => existsSync(path));
        if (isComplete || attempt === maxAttempts) throw error;
      } finally {
        await previous?.release();
      }
    }
  };

  return {
    newest,
    async close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

function readNewest(directory: string): PublishedGeneration | null {
  try {
    return readPublished(directory);
  } catch (error) {
    throw unreadable(error, join(directory, 'CURRENT'));
  }
}

/** Rejects if the delta differs from its description in CURRENT. */
async function requireDescribed(
  connection: DuckDBConnection,
  delta: string,
  generation: PublishedGeneration,
  organizationId: bigint,
): Promise<void> {
  const found = await readWatermark(connection, delta);
  if (found?.watermark.organizationId !== organizationId || found.base !== generation.base) {
    throw new Error('the file is of another organization, or not complete');
  }
  if (found.watermark.snapshot !== generation.snapshot) {
    throw new Error('the file has another snapshot than CURRENT');
  }
}

function publishedFile(
  connection: DuckDBConnection,
  catalogs: StoreCatalogs,
  directory: string,
  generation: PublishedGeneration,
  release: () => Promise<void>,
): OpenContent {
  const query = async (statement: Sql): Promise<DuckDBRow[]> => {
    try {
      return await queryRows(connection, statement);
    } catch (error) {
      throw unreadable(error, join(directory, generation.base));
    }
  };
  const named = { ...generation, name: generation.file };
  return { content: fileContent({ generation: named, catalogs, connection, query }), release };
}

function unreadable(error: unknown, path: string): unknown {
  if (!isDamage(error) || /INTERRUPT/i.test(String(error))) return error;
  return new UnreadableError(`${path} cannot be read: ${errorText(error)}`);
}
