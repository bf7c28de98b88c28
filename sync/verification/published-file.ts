import { existsSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import { createInstance, type DuckDBOptions } from '../../src/duckdb/connection.ts';
import { isDamage } from '../../src/duckdb/damage.ts';
import { errorText } from '../../src/process/error-text.ts';
import {
  type Current,
  organizationDirectory,
  readCurrent,
} from '../../src/purchase-store/format/current.ts';
import { layoutVersion } from '../../src/purchase-store/format/layout.ts';
import { DamagedLogError } from '../../src/purchase-store/format/log.ts';
import { createBases, type OpenStore, openStore } from '../../src/purchase-store/open-store.ts';
import { type Published, readPublished } from '../../src/purchase-store/ticks/published.ts';
import { newestTick, readTicks } from '../../src/purchase-store/ticks/published-tick.ts';
import { databaseOf } from '../capture/watermark.ts';
import { fileContent } from './file-content.ts';
import {
  DamagedGenerationError,
  type PublishedContent,
  type PublishedContents,
  type PublishedGeneration,
} from './published-content.ts';

// The worker may replace the files before they are opened. CURRENT then names others.
const maxAttempts = 10;

type Opened = { readonly store: OpenStore<null>; readonly log: string };

/** Opens published files in a separate DuckDB instance, because a damaged file may end the instance. */
export async function openPublishedFiles(
  dataDirectory: string,
  organizationId: bigint,
  options: DuckDBOptions,
): Promise<PublishedContents> {
  const directory = organizationDirectory(dataDirectory, organizationId);
  mkdirSync(dirname(options.spillDirectory), { recursive: true });
  const instance = await createInstance({ ...options, dataDirectory });
  const connection = await instance.connect();
  const bases = createBases(instance, () => null);
  let opened: Opened | null = null;
  let count = 0;

  const closeOpened = async (): Promise<void> => {
    await opened?.store.close(connection);
    opened = null;
  };

  const open = async ({ files: current, tick, logEnd }: Published): Promise<OpenStore<null>> => {
    if (opened?.log !== current.log) {
      await closeOpened();
      count += 1;
      const files = { published: tick, logEnd, catalog: `delta_${count}` };
      const store = await openStore(connection, bases, directory, current, files);
      opened = { store, log: current.log };
    }
    const { store } = opened;
    const pending = store.findPending(tick, logEnd);
    if (pending !== null) await store.apply(connection, pending);
    return store;
  };

  const newest = async (): Promise<PublishedContent | null> => {
    for (let attempt = 1; ; attempt += 1) {
      const published = readPublished(
        organizationId,
        () => newestTick(readTicks(dataDirectory), organizationId),
        () => readFiles(directory),
      );
      if (published === null) return null;
      const { files: current, watermark } = published;
      const { source, fingerprint } = current;
      try {
        const store = await open(published);
        const name = `${current.log} ${store.part().bytes}`;
        const generation = { ...watermark, fingerprint, database: databaseOf(source), name };
        return contentOf(connection, store, generation, directory);
      } catch (error) {
        await closeOpened().catch(() => {});
        const missing = missingFile(directory, current);
        if (missing !== null && attempt < maxAttempts) continue;
        const isOfLog = error instanceof DamagedLogError || current.base === null;
        const damaged = missing ?? (isOfLog ? current.log : (current.base as string));
        throw asDamage(error, join(directory, damaged));
      }
    }
  };

  return {
    newest,
    async close() {
      await closeOpened().catch(() => {});
      connection.closeSync();
      instance.closeSync();
    },
  };
}

const missingFile = (directory: string, { base, log }: Current): string | null =>
  [base, log].find((name) => name !== null && !existsSync(join(directory, name))) ?? null;

/** Null if nothing is published, or if it is of another layout and the worker will load it again. */
function readFiles(directory: string): Current | null {
  try {
    return readCurrent(directory, layoutVersion);
  } catch (error) {
    throw asDamage(error, join(directory, 'CURRENT'));
  }
}

function contentOf(
  connection: DuckDBConnection,
  { catalogs, current }: OpenStore<null>,
  generation: PublishedGeneration,
  directory: string,
): PublishedContent {
  const path = join(directory, current.base ?? current.log);
  return fileContent({
    generation,
    catalogs,
    connection,
    reading: (work) =>
      work().catch((error) => {
        throw asDamage(error, path);
      }),
  });
}

/** Names the damaged file. Other errors stay as they are. */
function asDamage(error: unknown, path: string): unknown {
  if (!isDamage(error) || /INTERRUPT/i.test(String(error))) return error;
  return new DamagedGenerationError(`${path} cannot be read: ${errorText(error)}`);
}
