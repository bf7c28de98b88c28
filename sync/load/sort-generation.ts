import { stat } from 'node:fs/promises';
import sql, { raw } from 'sql-template-tag';
import { purchaseLabels } from '../../src/domain/purchase.ts';
import { queryRows, quotePath } from '../../src/duckdb/connection.ts';
import { labelTable } from '../../src/purchase-store/layout.ts';
import { inTransaction } from '../apply/write-staged.ts';
import { completeLoad, readWatermark } from '../capture/watermark.ts';
import { requireSpace } from '../files/disk-space.ts';
import { type PurchaseFile, reset } from '../files/purchase-file.ts';

/**
 * Fills a file with what a published generation shows, in order and without gaps:
 * zone maps tell little of rows that were appended out of order, and deleted rows
 * keep their place.
 */
export async function sortGeneration(next: PurchaseFile, generation: string): Promise<void> {
  await reset(next);
  const { connection, catalog, directory } = next;
  // The new file, and what DuckDB spills while it sorts.
  await requireSpace(directory, 2 * (await stat(generation)).size);
  const source = `${catalog}_source`;
  await connection.run(`attach ${quotePath(generation)} as ${source} (read_only)`);
  try {
    const watermark = await readWatermark(connection, source);
    if (watermark === null) throw new Error(`${generation} has no watermark`);
    await inTransaction(connection, async () => {
      for (const table of ['customer', ...purchaseLabels.map(labelTable)]) {
        await connection.run(`insert into ${catalog}.${table} select * from ${source}.${table}`);
      }
      await connection.run(`
        insert into ${catalog}.purchase
        select * from ${source}.purchase order by created_at, id`);
      await completeLoad(connection, catalog, watermark);
    });
    next.watermark = watermark;
  } finally {
    await connection.run(`detach ${source}`);
  }
}

/** A row group's rows; what DuckDB keeps the least and the greatest value of. */
const rowGroupRows = 122_880;
/** Below this no scan is slow, however its rows lie. */
const worthSortingRows = 1_000_000;
const mostOverlap = 3;
const mostGaps = 1.3;

/**
 * Why a file is worth sorting anew, for the log; null where it is not. Its rows
 * are in order as far as row groups cover times of their own: with the groups'
 * spans laid end to end, an ordered file covers its time once.
 */
export async function whySort(file: PurchaseFile): Promise<string | null> {
  const table = raw(`${file.catalog}.purchase`);
  const [row] = await queryRows(
    file.connection,
    sql`
      with row_groups as (
        select count(*) as purchases, max(rowid) + 1 as places,
          min(epoch_us(created_at)) as first, max(epoch_us(created_at)) as last
        from ${table} group by rowid // ${rowGroupRows}
      )
      select sum(purchases)::double, max(places)::double,
        sum(last - first)::double / greatest(1, max(last) - min(first))
      from row_groups`,
  );
  const [purchases, places, overlap] = (row ?? []) as [number | null, number | null, number | null];
  if (purchases === null || places === null || overlap === null) return null;
  if (places < worthSortingRows) return null;
  if (places > purchases * mostGaps) return `${Math.round(places - purchases)} deleted rows`;
  return overlap > mostOverlap ? `rows out of order (${overlap.toFixed(1)} times over)` : null;
}
