import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { DuckDBConnection } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { purchaseColumns } from '../../../src/domain/purchase.ts';
import type { PurchasePlace } from '../../../src/domain/purchase-query.ts';
import { queryRows, runStatement } from '../../../src/duckdb/connection.ts';
import { requireSpace } from '../../../src/process/disk-space.ts';
import { dictionaries } from '../../../src/purchase-store/format/layout.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../../src/purchase-store/format/relations.ts';
import { type Bases, type NamedFiles, openStore } from '../../../src/purchase-store/open-store.ts';
import { inFile } from '../../verification/purchase-range.ts';
import {
  type BaseFile,
  type BaseLocation,
  closeBase,
  finishBase,
  fitRowGroups,
  mergedBasePath,
  openUnfinishedBase,
  removeDuckDBFile,
  resetBase,
} from '../base-file.ts';
import { insertPurchases } from '../load/insert-purchases.ts';
import { rowGroupRows } from '../load/load-in-chunks.ts';

export type MergeOptions = BaseLocation & {
  readonly bases: Bases<null>;
  readonly signal: AbortSignal;
  /** Rows of one transaction; smaller in tests. */
  readonly chunkRows?: number | undefined;
};

export type Merged = {
  readonly base: string;
  readonly purchases: number;
  /** The end of the part of the log that was merged. */
  readonly mergedBytes: number;
};

/** Merges a base and the batches of published ticks of a log into a new base, in the order of creation. */
export async function mergeIntoBase(
  options: MergeOptions,
  current: NamedFiles,
  published: number,
): Promise<Merged> {
  const { bases, signal, chunkRows = 2 * rowGroupRows } = options;
  const file = await openUnfinishedBase(options, mergedBasePath);
  try {
    await resetBase(file);
    const { connection, directory } = file;
    const sizes = [current.base, current.log].map((name) =>
      name === null ? 0 : statSync(join(directory, name)).size,
    );
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    requireSpace(directory, 2 * bytes);
    const catalog = `${file.catalog}_delta`;
    const store = await openStore(connection, bases, directory, current, { published, catalog });
    try {
      const rows = await countPurchases(connection, store.catalogs.base);
      await fitRowGroups(file, bytes / (rows + store.part().records));
      await mergeStore(file, store.catalogs, chunkRows, signal);
      const purchases = await countPurchases(connection, file.catalog);
      const { bytes: mergedBytes } = store.part();
      await store.close(connection);
      return { base: await finishBase(file), purchases, mergedBytes };
    } catch (error) {
      await store.close(connection).catch(() => {});
      throw error;
    }
  } catch (error) {
    await closeBase(file).catch(() => {});
    // A merge does not resume.
    await removeDuckDBFile(file.path).catch(() => {});
    throw error;
  }
}

async function countPurchases(connection: DuckDBConnection, catalog: string): Promise<number> {
  const [row] = await queryRows(connection, sql`select count(*) from ${raw(catalog)}.purchase`);
  return Number(row?.[0]);
}

/** Merges slices of the base by time, each in a transaction of its own, because each is sorted in memory. */
async function mergeStore(
  { connection, catalog, previous }: Pick<BaseFile, 'connection' | 'catalog' | 'previous'>,
  source: StoreCatalogs,
  chunkRows: number,
  signal: AbortSignal,
): Promise<void> {
  for (const dictionary of dictionaries) {
    await runStatement(
      connection,
      sql`insert into ${raw(catalog)}.${raw(dictionary.table)} from ${dictionaryEntries(source, dictionary)}`,
    );
  }
  const bounds = await sliceBounds(connection, source, chunkRows);
  for (const [index, until] of [...bounds, null].entries()) {
    signal.throwIfAborted();
    const range = { after: bounds[index - 1] ?? null, until };
    const purchases = currentPurchases(source, inFile(range));
    const ordered = sql`from ${purchases} order by created_at, id`;
    // A temporary table with the rows of both takes a tenth longer.
    await insertPurchases(connection, catalog, previous, { keys: ordered, rows: ordered });
  }
}

/** The maximum of text in a slice of the base. */
const maxSliceBytes = 32 * 2 ** 20;
/** A slice consists of parts with this number of rows. */
const rowsOfPart = 512;

const textBytes = purchaseColumns
  .filter(({ kind }) => kind === 'text' || kind === 'coupons')
  .map(({ name }) => `coalesce(strlen(${name}), 0)`)
  .join(' + ');

/** The last purchase of each slice except the last slice. */
async function sliceBounds(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  chunkRows: number,
): Promise<PurchasePlace[]> {
  const rows = raw(String(Math.min(rowsOfPart, chunkRows)));
  const parts = await queryRows(
    connection,
    sql`
      select epoch_us(max(created_at)), max_by(id, rowid), count(*), sum(${raw(textBytes)})::bigint
      from ${raw(base)}.purchase group by rowid // ${rows} order by min(rowid)`,
  );
  const bounds: PurchasePlace[] = [];
  let last: PurchasePlace | null = null;
  let slice = { rows: 0n, bytes: 0n };
  for (const [createdAt, id, rows, bytes] of parts as [bigint, bigint, bigint, bigint][]) {
    const isFull = slice.rows + rows > chunkRows || slice.bytes + bytes > maxSliceBytes;
    if (isFull && last !== null) {
      bounds.push(last);
      slice = { rows: 0n, bytes: 0n };
    }
    slice = { rows: slice.rows + rows, bytes: slice.bytes + bytes };
    last = { createdAt, id };
  }
  return bounds;
}
