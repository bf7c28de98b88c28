import { join } from 'node:path';
import { DuckDBTimestampValue } from '@duckdb/node-api';
import sql, { raw } from 'sql-template-tag';
import { detach, queryRows, quotePath, runStatement } from '../../src/duckdb/connection.ts';
import { dictionaries } from '../../src/purchase-store/layout.ts';
import type { PublishedGeneration } from '../../src/purchase-store/published-generation.ts';
import {
  currentPurchases,
  dictionaryEntries,
  type StoreCatalogs,
} from '../../src/purchase-store/relations.ts';
import { readWatermark, type Watermark } from '../capture/watermark.ts';
import { type BaseFile, resetBase } from '../files/base-file.ts';
import type { FileContext } from '../files/delta-file.ts';
import { requireSpace } from '../files/disk-space.ts';
import { defaultChunkRows, type LoadOptions } from './load.ts';

/** A delta is compacted if it has more rows than this share of the base, and than this minimum. */
const maxDeltaShare = 0.02;
const defaultMaxDeltaRows = 20_000;

/** The reason to compact a base and its changes; null if they are few. */
export const whyCompact = (
  baseRows: number,
  changes: number,
  maxRows = defaultMaxDeltaRows,
): string | null =>
  changes > Math.max(maxRows, baseRows * maxDeltaShare) ? `${changes} rows of changes` : null;

/**
 * Merges a published generation into an empty base, in the order of creation. Returns the
 * watermark of the generation.
 */
export async function compact(
  file: BaseFile,
  { bases }: FileContext,
  generation: PublishedGeneration,
  { signal, chunkRows = defaultChunkRows }: Pick<LoadOptions, 'signal' | 'chunkRows'>,
): Promise<Watermark> {
  await resetBase(file);
  const { connection, catalog, directory } = file;
  await requireSpace(directory, 2 * generation.bytes);
  const base = await bases.acquire(join(directory, generation.base));
  const delta = `${catalog}_delta`;
  try {
    const path = join(directory, generation.file);
    await connection.run(`attach ${quotePath(path)} as ${delta} (read_only)`);
    try {
      const found = await readWatermark(connection, delta);
      if (found === null) throw new Error(`${path} has no watermark`);
      await merge(file, { base: base.catalog, delta }, chunkRows, signal);
      return found.watermark;
    } finally {
      await detach(connection, delta);
    }
  } finally {
    await base.release();
  }
}

/** Merges slices of the base by time, each in a transaction of its own, because each is sorted in memory. */
async function merge(
  { connection, catalog }: BaseFile,
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
  const slices = await queryRows(
    connection,
    sql`
      select epoch_us(min(created_at)) from ${raw(source.base)}.purchase
      group by rowid // ${raw(String(chunkRows))} order by 1`,
  );
  const bounds = slices.slice(1).map(([begin]) => new DuckDBTimestampValue(begin as bigint));
  for (let index = 0; index <= bounds.length; index += 1) {
    signal.throwIfAborted();
    const [begin, end] = [bounds[index - 1], bounds[index]];
    const since = begin === undefined ? sql`true` : sql`created_at >= ${begin}`;
    const until = end === undefined ? sql`true` : sql`created_at < ${end}`;
    await runStatement(
      connection,
      sql`
        insert into ${raw(catalog)}.purchase
        select * from ${currentPurchases(source, sql`${since} and ${until}`)}
        order by created_at, id`,
    );
  }
}
