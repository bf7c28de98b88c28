import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { queryRows, runStatement } from '../../src/duckdb/connection.ts';
import { dictionaries } from '../../src/purchase-store/layout.ts';
import { type Bases, type NamedFiles, openStore } from '../../src/purchase-store/open-store.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/relations.ts';
import { requireSpace } from '../files/disk-space.ts';
import {
  type BaseFile,
  type BaseLocation,
  closeBase,
  finishBase,
  mergedBasePath,
  openUnfinishedBase,
  removeDuckDBFile,
  resetBase,
} from './base-file.ts';
import { insertPurchases } from './insert-purchases.ts';
import { defaultChunkRows } from './load-base.ts';

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
  readonly position: number;
};

/** Merges a base and the batches of published ticks of a log into a new base, in the order of creation. */
export async function merge(
  options: MergeOptions,
  current: NamedFiles,
  published: number,
): Promise<Merged> {
  const { bases, signal, chunkRows = defaultChunkRows } = options;
  const file = await openUnfinishedBase(options, mergedBasePath);
  try {
    await resetBase(file);
    const { connection, directory } = file;
    const sizes = [current.base, current.log].map((name) =>
      name === null ? 0 : statSync(join(directory, name)).size,
    );
    requireSpace(directory, 2 * sizes.reduce((sum, size) => sum + size, 0));
    const catalog = `${file.catalog}_delta`;
    const store = await openStore(connection, bases, directory, current, { published, catalog });
    try {
      await mergeStore(file, store.catalogs, chunkRows, signal);
      const [row] = await queryRows(
        connection,
        sql`select count(*) from ${raw(file.catalog)}.purchase`,
      );
      const { position } = store.part();
      await store.close(connection);
      return { base: await finishBase(file), purchases: Number(row?.[0]), position };
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
  for (let index = 0; index <= bounds.length; index += 1) {
    signal.throwIfAborted();
    const [begin, end] = [bounds[index - 1], bounds[index]];
    const since = begin === undefined ? sql`true` : sql`created_at >= ${begin}`;
    const until = end === undefined ? sql`true` : sql`created_at < ${end}`;
    const purchases = currentPurchases(source, sql`${since} and ${until}`);
    await insertPurchases(connection, catalog, previous, sql`from ${purchases}`);
  }
}

async function sliceBounds(
  connection: DuckDBConnection,
  { base }: StoreCatalogs,
  chunkRows: number,
): Promise<DuckDBTimestampValue[]> {
  const slices = await queryRows(
    connection,
    sql`
      select epoch_us(min(created_at)) from ${raw(base)}.purchase
      group by rowid // ${raw(String(chunkRows))} order by 1`,
  );
  return slices.slice(1).map(([begin]) => new DuckDBTimestampValue(begin as bigint));
}
