import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { latestInstant } from '../../../src/domain/instant.ts';
import { purchaseColumns } from '../../../src/domain/purchase.ts';
import type { PurchasePlace } from '../../../src/domain/purchase-query.ts';
import { queryRows } from '../../../src/duckdb/connection.ts';
import { inTransaction } from '../../../src/duckdb/transaction.ts';
import { type Database, withSnapshot } from '../../../src/postgres/connection/pool.ts';
import { requireSpace } from '../../../src/process/disk-space.ts';
import {
  copiedLines,
  copiedValue,
  recordTypes,
} from '../../../src/purchase-store/format/copied-lines.ts';
import {
  type EncodedTable,
  encodedKeys,
  extendDictionaries,
  purchasesWithKeys,
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

type ChunkedLoadOptions = {
  readonly database: Database;
  readonly instance: DuckDBInstance;
  readonly organizationId: bigint;
  readonly signal: AbortSignal;
  /** Called when the load begins or resumes, and after each chunk. */
  readonly onProgress: (progress: LoadProgress) => void;
  /** Rows of one transaction of a load or a compaction; smaller in tests. */
  readonly chunkRows?: number | undefined;
};

/** DuckDB writes whole row groups to the file, without the write-ahead log. */
export const rowGroupRows = 122_880;

/**
 * Loads all purchases of an organization into a base, in chunks. At the same time, Postgres copies a chunk, DuckDB
 * decodes the one before, and inserts the one before that. Each chunk is committed with its end
 * place, so an interrupted load resumes there. The caller completes the load with the changes
 * since `progress.since`.
 */
export async function loadInChunks(
  file: BaseFile,
  options: ChunkedLoadOptions,
): Promise<LoadProgress> {
  const { database, onProgress } = options;
  const { progress: begun } = file;
  if (begun === null || (await whyChangesMissing(database, begun.since)) !== null) {
    await begin(file, options);
  }
  let progress = file.progress as LoadProgress;
  onProgress(progress);
  const cancellation = new AbortController();
  const signal = AbortSignal.any([options.signal, cancellation.signal]);
  const cancel = () => cancellation.abort();
  const second = await options.instance.connect();
  const connections = [file.connection, second] as const;
  const space = createSpace(file.directory);
  try {
    const copied = ahead(copyChunks(file, progress.after, space, { ...options, signal }), cancel);
    for await (const chunk of ahead(decodeChunks(copied, connections), cancel)) {
      await fitRowGroups(file, chunk.bytes / chunk.rows);
      progress = await insertChunk(file, chunk, progress);
      space.release(maxWrittenBytes(chunk));
      onProgress(progress);
      options.signal.throwIfAborted();
    }
  } finally {
    second.closeSync();
    for (const path of chunkPaths(file)) await rm(path, { force: true });
    await file.connection.run(dropDecoded).catch(() => {});
  }
  return progress;
}

/** The next item is made while the caller uses one. `cancel` ends what makes an item that nobody takes. */
async function* ahead<Item>(items: AsyncGenerator<Item>, cancel: () => void): AsyncGenerator<Item> {
  const request = () => {
    const next = items.next();
    // It may reject before it is awaited.
    next.catch(() => {});
    return next;
  };
  let next = request();
  try {
    for (;;) {
      const { done, value } = await next;
      if (done === true) return;
      next = request();
      yield value;
    }
  } finally {
    cancel();
    await next.catch(() => {});
    await items.return(undefined);
  }
}

/** The space of the disk that DuckDB may need for chunks that are not inserted yet. */
function createSpace(directory: string) {
  let reserved = 0;
  return {
    reserve(bytes: number): void {
      reserved += bytes;
      requireSpace(directory, reserved);
    },
    release(bytes: number): void {
      reserved -= bytes;
    },
    require: (bytes: number): void => requireSpace(directory, reserved + bytes),
  };
}

/** Two files: one is written while the other one is read. */
const chunkPaths = ({ directory }: BaseFile): string[] =>
  ['load-a.tsv', 'load-b.tsv'].map((name) => join(directory, name));

type CopiedFile = CopiedChunk & { readonly path: string; readonly token: string };

async function* copyChunks(
  file: BaseFile,
  begin: LoadProgress['after'],
  space: ReturnType<typeof createSpace>,
  { database, organizationId, signal, chunkRows = rowGroupRows }: ChunkedLoadOptions,
): AsyncGenerator<CopiedFile> {
  const reader = createChunkReader({
    database,
    organizationId,
    maxRows: chunkRows,
    beforeWriting: space.require,
    signal,
  });
  let [path, otherPath] = chunkPaths(file) as [string, string];
  for (let after = begin; ; ) {
    const chunk = await reader.read(after, path);
    // The token must follow the snapshot of the chunk, to prove that history includes it.
    const token = await commitToken(database);
    space.reserve(maxWrittenBytes(chunk));
    yield { ...chunk, path, token };
    if (chunk.until === null) return;
    after = chunk.until;
    [path, otherPath] = [otherPath, path];
  }
}

type DecodedChunk = CopiedFile & { readonly connection: DuckDBConnection };

/** Fills the temp table `loaded` of one connection, while chunks are inserted from that of the other one. */
async function* decodeChunks(
  chunks: AsyncIterable<CopiedFile>,
  [first, second]: readonly [DuckDBConnection, DuckDBConnection],
): AsyncGenerator<DecodedChunk> {
  let [connection, other] = [first, second];
  for await (const chunk of chunks) {
    await connection.run(decode(chunk.path));
    const [row] = await queryRows(connection, sql`select count(*) from loaded`);
    if (Number(row?.[0]) !== chunk.rows)
      throw new Error('DuckDB read another number of rows than Postgres wrote');
    yield { ...chunk, connection };
    [connection, other] = [other, connection];
  }
}

/**
 * The bytes that DuckDB may write for a chunk: the file has no more bytes than the lines, usually 0.4 times as many.
 * Rows outside of whole row groups are also in the write-ahead log.
 */
function maxWrittenBytes({ rows, bytes }: CopiedChunk): number {
  const loggedShare = (rows % rowGroupRows) / Math.max(1, rows);
  return Math.ceil(bytes * (1 + loggedShare));
}

/** The place after the last purchase: a load that resumes here reads no rows. */
const endPlace: PurchasePlace = { createdAt: latestInstant, id: 2n ** 63n - 1n };

async function begin(
  file: BaseFile,
  { database, organizationId }: ChunkedLoadOptions,
): Promise<void> {
  await resetBase(file);
  const progress = await withSnapshot(database, async (connection) => {
    const since = await confirmSnapshot(database, await takeSnapshot(connection));
    const begun = { since, after: null, loaded: 0, expected: 0 };
    file.progress = begun;
    const { rows } = await connection.query<{ count: bigint }>(
      sql`select count(*) as count from purchases where organization_id = ${organizationId}`,
    );
    return { ...begun, expected: Number(rows[0]?.count) };
  });
  await inTransaction(file.connection, () =>
    writeLoadProgress(file.connection, file.catalog, progress),
  );
  file.progress = progress;
}

async function insertChunk(
  file: BaseFile,
  { connection, ...chunk }: DecodedChunk,
  before: LoadProgress,
): Promise<LoadProgress> {
  const { catalog } = file;
  const loaded = before.loaded + chunk.rows;
  const since = { ...before.since, token: chunk.token };
  const progress = { ...before, since, loaded, after: chunk.until ?? endPlace };
  const rows: EncodedTable = { table: 'loaded', entries: ({ table }) => `${catalog}.${table}` };
  await inTransaction(connection, async () => {
    await connection.run(extendDictionaries(rows, (each) => entriesOfBase(catalog, each)));
    await connection.run(`create temp table loaded_key as ${encodedKeys(rows)}`);
    await insertPurchases(connection, catalog, file.previous, {
      keys: sql`from loaded_key`,
      rows: raw(purchasesWithKeys(rows, 'loaded_key')),
    });
    await writeLoadProgress(connection, catalog, progress);
  });
  await connection.run(dropDecoded);
  file.progress = progress;
  return progress;
}

const dropDecoded = 'drop table if exists loaded; drop table if exists loaded_key';

const fields = copiedColumns.map(
  ({ name, kind }) => [name, kind === 'instant' ? 'timestamp' : recordTypes[kind]] as const,
);

/** Fills the temp table `loaded` from the lines of COPY. */
function decode(path: string): string {
  const values = purchaseColumns.map((column) =>
    // DuckDB rejects an infinite instant here, because it has no microseconds.
    column.kind === 'instant' ? `epoch_us(${column.name}) as ${column.name}` : copiedValue(column),
  );
  return `
    create or replace temp table loaded as
    select ${values.join(', ')} from ${copiedLines(path, fields)}`;
}
