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
 * Copies a published generation into a new file, sorted by creation and without deleted rows.
 * Zone maps skip few row groups if rows are out of order, and deleted rows take space.
 */
export async function sortGeneration(next: PurchaseFile, generation: string): Promise<void> {
  await reset(next);
  const { connection, catalog, directory } = next;
  // Space for the new file, and for the spilled rows of the sort.
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

/** The rows of a row group. DuckDB keeps minimum and maximum of each row group. */
const rowGroupRows = 122_880;
/** Scans of smaller files are fast in any order. */
const minRows = 1_000_000;
const maxOverlap = 3;
const maxGaps = 1.3;

/**
 * The reason to sort a file; null if sorting would not help. The overlap is the sum of the time
 * ranges of all row groups, divided by the time range of the file: 1 in a sorted file.
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
  if (places < minRows) return null;
  if (places > purchases * maxGaps) return `${Math.round(places - purchases)} deleted rows`;
  return overlap > maxOverlap ? `rows out of order (${overlap.toFixed(1)} times over)` : null;
}
