import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import sql, { raw } from 'sql-template-tag';
import { latestInstant } from '../../../src/domain/instant.ts';
import { maxPurchaseLineBytes, purchaseColumns } from '../../../src/domain/purchase.ts';
import type { PurchasePosition } from '../../../src/domain/purchase-query.ts';
import { queryRows, quotePath } from '../../../src/duckdb/connection.ts';
import { inTransaction } from '../../../src/duckdb/transaction.ts';
import { type Database, withSnapshot } from '../../../src/postgres/connection/pool.ts';
import { requireSpace } from '../../../src/process/disk-space.ts';
import { fieldTypes } from '../../../src/purchase-store/delta/replay.ts';
import {
  type EncodedTable,
  encodedPurchases,
  extendDictionaries,
} from '../../../src/purchase-store/format/encode-sql.ts';
import { entriesOfBase } from '../../../src/purchase-store/format/layout.ts';
import { commitToken, confirmSnapshot } from '../../capture/history-token.ts';
import { whyChangesMissing } from '../../capture/missing-changes.ts';
import { takeSnapshot } from '../../capture/snapshot.ts';
import { type BaseFile, fitRowGroups, resetBase } from '../base-file.ts';
import { createChunkReader } from './chunk-reader.ts';
import { type CopiedChunk, copiedColumns } from './copy-purchases.ts';
import { insertPurchases } from './insert-purchases.ts';
import { type LoadProgress, writeLoadProgress } from './load-progress.ts';

export type ChunkedLoadOptions = {
  readonly database: Database;
  readonly organizationId: bigint;
  readonly signal: AbortSignal;
  /** Called when the load begins or resumes, and after each chunk. */
  readonly onProgress: (progress: LoadProgress) => void;
  /** Rows of one transaction of a load or a compaction; smaller in tests. */
  readonly chunkRows?: number | undefined;
};

/** DuckDB writes whole row groups to the file, without the write-ahead log. */
const rowGroupRows = 122_880;
export const defaultChunkRows = 2 * rowGroupRows;

/**
 * Loads all purchases of an organization into a base, in chunks: Postgres copies the next chunk while DuckDB reads the last
 * one. Each chunk is committed with its end position, so an interrupted load resumes there. The
 * caller completes the load with the changes since `progress.since`.
 */
export async function loadInChunks(
  file: BaseFile,
  options: ChunkedLoadOptions,
): Promise<LoadProgress> {
  const { database, organizationId, onProgress, chunkRows = defaultChunkRows } = options;
  const { progress: begun } = file;
  if (begun === null || (await whyChangesMissing(database, begun.since)) !== null) {
    await begin(file, options);
  }
  let progress = file.progress as LoadProgress;
  onProgress(progress);

  const cancellation = new AbortController();
  const signal = AbortSignal.any([options.signal, cancellation.signal]);
  const { directory } = file;
  const reader = createChunkReader({
    database,
    organizationId,
    directory,
    maxRows: chunkRows,
    signal,
  });
  const read = (after: LoadProgress['after'], path: string) => {
    const chunk = reader.read(after, path).then(async (copied) => ({
      ...copied,
      // The token must follow the snapshot of the chunk, to prove that history includes it.
      token: await commitToken(database),
    }));
    // The promise may reject before it is awaited.
    chunk.catch(() => {});
    return chunk;
  };
  const paths = ['load-a.csv', 'load-b.csv'].map((name) => join(file.directory, name));
  let [path, otherPath] = paths as [string, string];
  let reading: Promise<ConfirmedChunk> | null = read(progress.after, path);
  try {
    while (reading !== null) {
      const chunk: ConfirmedChunk = await reading;
      // Reserve space for DuckDB before Postgres writes the next chunk.
      const written = maxWrittenBytes(chunk);
      requireSpace(directory, written);
      reader.reserve(written);
      reading = chunk.until === null ? null : read(chunk.until, otherPath);
      await fitRowGroups(file, chunk.bytes / chunk.rows);
      progress = await loadChunk(file, path, chunk, progress);
      reader.reserve(0);
      onProgress(progress);
      options.signal.throwIfAborted();
      [path, otherPath] = [otherPath, path];
    }
  } finally {
    cancellation.abort();
    await reading?.catch(() => {});
    for (const name of paths) await rm(name, { force: true });
    await file.connection.run('drop table if exists loaded').catch(() => {});
  }
  return progress;
}

/**
 * The bytes that DuckDB may write for a chunk: the file has no more bytes than the CSV, usually 0.4 times as many.
 * Rows outside of whole row groups are also in the write-ahead log.
 */
function maxWrittenBytes({ rows, bytes }: CopiedChunk): number {
  const loggedShare = (rows % rowGroupRows) / Math.max(1, rows);
  return Math.ceil(bytes * (1 + loggedShare));
}

type ConfirmedChunk = CopiedChunk & { readonly token: string };

/** The position after the last purchase: a load that resumes here reads no rows. */
const endPosition: PurchasePosition = { createdAt: latestInstant, id: 2n ** 63n - 1n };

async function begin(
  file: BaseFile,
  { database, organizationId }: ChunkedLoadOptions,
): Promise<void> {
  await resetBase(file);
  const progress = await withSnapshot(database, async (source) => {
    const since = await confirmSnapshot(database, await takeSnapshot(source));
    const begun = { since, after: null, loaded: 0, expected: 0 };
    file.progress = begun;
    const { rows } = await source.query<{ count: bigint }>(
      sql`select count(*) as count from purchases where organization_id = ${organizationId}`,
    );
    return { ...begun, expected: Number(rows[0]?.count) };
  });
  await inTransaction(file.connection, () =>
    writeLoadProgress(file.connection, file.catalog, progress),
  );
  file.progress = progress;
}

async function loadChunk(
  file: BaseFile,
  path: string,
  chunk: ConfirmedChunk,
  before: LoadProgress,
): Promise<LoadProgress> {
  const { connection, catalog } = file;
  const loaded = before.loaded + chunk.rows;
  const since = { ...before.since, token: chunk.token };
  const progress = { ...before, since, loaded, after: chunk.until ?? endPosition };
  const rows: EncodedTable = { table: 'loaded', entries: ({ table }) => `${catalog}.${table}` };
  await connection.run(readChunk(path));
  const [row] = await queryRows(connection, sql`select count(*) from loaded`);
  if (Number(row?.[0]) !== chunk.rows)
    throw new Error('DuckDB read another number of rows than Postgres wrote');
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(rows, (each) => entriesOfBase(catalog, each)));
    await insertPurchases(connection, catalog, file.previous, raw(encodedPurchases(rows)));
    await writeLoadProgress(connection, catalog, progress);
  });
  file.progress = progress;
  return progress;
}

const csvTypes = { ...fieldTypes, instant: 'timestamp' };

/**
 * Fills the temp table `loaded` from the CSV of COPY, where NULL is an empty field and '' is "". Two
 * threads took a half more processor time for it, which Postgres needs meanwhile.
 */
function readChunk(path: string): string {
  const types = copiedColumns.map(({ name, kind }) => `'${name}': '${csvTypes[kind]}'`);
  const values = purchaseColumns.map(({ name, kind }) =>
    // DuckDB rejects an infinite instant here, because it has no microseconds.
    kind === 'instant' ? `epoch_us(${name}) as ${name}` : name,
  );
  return `
    create or replace temp table loaded as
    select ${values.join(', ')}
    from read_csv(${quotePath(path)}, columns = {${types.join(', ')}},
      auto_detect = false, header = false, delim = ',', quote = '"', escape = '"',
      new_line = '\\n', nullstr = '', allow_quoted_nulls = false, parallel = false,
      max_line_size = ${maxPurchaseLineBytes}, buffer_size = ${2 * maxPurchaseLineBytes})`;
}
