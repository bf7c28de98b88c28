import { existsSync } from 'node:fs';
import { link } from 'node:fs/promises';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql from 'sql-template-tag';
import { queryRows } from '../../../src/duckdb/connection.ts';
import type { Database } from '../../../src/postgres/connection/pool.ts';
import { currentFile, organizationDirectory } from '../../../src/purchase-store/format/current.ts';
import {
  currentPurchases,
  type StoreCatalogs,
} from '../../../src/purchase-store/format/relations.ts';
import { type Bases, openStore } from '../../../src/purchase-store/open-store.ts';
import { streamChanges } from '../../capture/changed-purchases.ts';
import { MissingChangesError, readSince } from '../../capture/missing-changes.ts';
import type { Watermark } from '../../capture/watermark.ts';
import { isFileDamage } from '../../describe-failure.ts';
import type { FileStore } from '../../files/file-store.ts';
import { createLogFile, visibleAtOnce } from '../../files/log-files.ts';
import type { Organization } from '../../organization.ts';
import { maxLogBytes } from '../../tick/byte-limits.ts';
import type { Prepared } from '../../tick/store.ts';
import { fileContent } from '../../verification/file-content.ts';
import { DamagedGenerationError } from '../../verification/published-content.ts';
import { requireEqual, requireTotals, WrongLoadError } from '../../verification/verify.ts';
import {
  closeBase,
  finishBase,
  openUnfinishedBase,
  removeDuckDBFile,
  removeNameOfPublished,
} from '../base-file.ts';
import type { BuildOptions } from '../builder.ts';
import { mergeIntoBase } from '../compact/merge-into-base.ts';
import { discardFiles, type NewFiles, prepare } from '../new-files.ts';
import { loadInChunks } from './load-in-chunks.ts';
import type { LoadProgress } from './load-progress.ts';

type LoadLargeOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly bases: Bases<null>;
  readonly dataDirectory: string;
  readonly loadChunkRows?: number | undefined;
};

/**
 * Loads an organization into a base, and the changes during the load into a log. Compares the totals with
 * Postgres, and all content if the files replace others. An interrupted load resumes: the unfinished base
 * stays until CURRENT names the new one, unless its purchases are wrong.
 */
export async function loadLarge(
  store: FileStore,
  options: LoadLargeOptions,
  organization: Organization,
  build: BuildOptions,
): Promise<Prepared> {
  const { database, dataDirectory, instance } = options;
  const location = { instance, dataDirectory, organizationId: organization.id };
  const directory = organizationDirectory(dataDirectory, organization.id);
  const published = store.published(organization.id)?.current.base ?? null;
  if (published !== null) await removeNameOfPublished(directory, published);
  const base = await openUnfinishedBase(location);
  let progress: LoadProgress;
  try {
    progress = await loadInChunks(base, {
      ...location,
      database,
      signal: build.signal,
      chunkRows: options.loadChunkRows,
      onProgress: (changed) => {
        build.onRetain(changed.since.snapshot);
        build.onProgress(changed);
      },
    });
  } catch (error) {
    await closeBase(base).catch(() => {});
    throw error;
  }
  const name = await finishBase(base, link);
  const log = createLogFile(directory);
  let files: NewFiles = { organization, base: name, log, purchases: progress.loaded };
  const mergeFiles = async (): Promise<NewFiles> => {
    const merged = await mergeLog(options, files, build);
    await discardFiles(store, dataDirectory, files);
    files = merged;
    return merged;
  };
  try {
    const isReplacing = existsSync(currentFile(directory));
    const since = await completeLoad(
      { ...options, files, mergeFiles },
      progress.since,
      isReplacing,
      build,
    );
    return prepare(store, dataDirectory, files, since);
  } catch (error) {
    await discardFiles(store, dataDirectory, files);
    if (isBaseUnusable(error)) await removeDuckDBFile(base.path);
    throw error;
  }
}

/** Whether the load must begin again: another failure says nothing about the rows. */
const isBaseUnusable = (error: unknown): boolean =>
  [WrongLoadError, DamagedGenerationError, MissingChangesError].some(
    (kind) => error instanceof kind,
  ) || isFileDamage(error);

/** Merges the log of a load into another base, and begins another log. */
async function mergeLog(
  options: LoadLargeOptions,
  { organization, base, log }: NewFiles,
  { signal }: BuildOptions,
): Promise<NewFiles> {
  const { loadChunkRows: chunkRows } = options;
  const merged = await mergeIntoBase(
    { ...options, organizationId: organization.id, chunkRows, signal },
    { base, log: log.name, logBytes: log.end().bytes, asOf: 0n },
    visibleAtOnce,
  );
  const directory = organizationDirectory(options.dataDirectory, organization.id);
  const { base: name, purchases } = merged;
  return { organization, base: name, purchases, log: createLogFile(directory) };
}

/**
 * Appends the changes since the load began: the base may hold a changed purchase twice or not at all. If
 * they are more than a reader can hold, `mergeFiles` merges what was appended.
 */
async function completeLoad(
  options: LoadLargeOptions & {
    readonly files: NewFiles;
    readonly mergeFiles: () => Promise<NewFiles>;
  },
  since: Watermark,
  isReplacing: boolean,
  { signal }: BuildOptions,
): Promise<Watermark> {
  const { database, instance, mergeFiles } = options;
  let { files } = options;
  const { id } = files.organization;
  const connection = await instance.connect();
  try {
    const { watermark } = await readSince(database, since, async (postgres) => {
      for await (const [, records] of streamChanges(postgres, [id], since.snapshot)) {
        signal.throwIfAborted();
        files.log.append(records);
        if (files.log.end().bytes > maxLogBytes) files = await mergeFiles();
      }
      await withFiles(options, connection, files, async (catalogs) => {
        const [row] = await queryRows(
          connection,
          sql`
            select count(*) || ' worth ' || coalesce(sum(purchase_value_in_cents), 0)
            from ${currentPurchases(catalogs)}`,
        );
        await requireTotals(postgres, id, row?.[0]);
      });
    });
    if (isReplacing) {
      await withFiles(options, connection, files, async (catalogs) => {
        const generation = { ...watermark, name: files.log.name };
        const content = fileContent({ generation, connection, catalogs });
        await requireEqual(content, { organizationId: id, database, signal });
      });
    }
    return watermark;
  } finally {
    connection.closeSync();
  }
}

async function withFiles<Result>(
  { bases, dataDirectory }: LoadLargeOptions,
  connection: DuckDBConnection,
  { organization, base, log }: NewFiles,
  work: (catalogs: StoreCatalogs) => Promise<Result>,
): Promise<Result> {
  const directory = organizationDirectory(dataDirectory, organization.id);
  const current = { base, log: log.name, logBytes: log.end().bytes, asOf: 0n };
  const opened = { published: visibleAtOnce, catalog: `loaded_${organization.id}` };
  const store = await openStore(connection, bases, directory, current, opened);
  return work(store.catalogs).finally(() => store.close(connection));
}
