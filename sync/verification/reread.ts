import type pg from 'pg';
import sql, { join, raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { purchaseSelectList } from '../../src/postgres/purchase-select-list.ts';
import { writeStaged } from '../apply/apply-changes.ts';
import { type ChangedPurchase, stage } from '../apply/staging.ts';
import { stream } from '../capture/row-stream.ts';
import type { DeltaFile } from '../files/delta-file.ts';
import { inTransaction } from '../files/transaction.ts';
import { findDictionaryDamage } from './dictionaries.ts';
import { inFile, inPostgres, type PurchaseRange } from './purchase-range.ts';

/**
 * Replaces the live file's purchases of some ranges by those of Postgres, in one transaction.
 * The file must show all changes that `source`, a REPEATABLE READ transaction, sees: then the
 * watermark stays true. The caller publishes. Resolves with false, without a change, if a
 * dictionary is damaged: only a rebuild repairs it.
 */
export async function rereadRanges(
  live: DeltaFile,
  source: pg.ClientBase,
  ranges: readonly PurchaseRange[],
  signal: AbortSignal,
): Promise<boolean> {
  const { connection, catalogs, watermark } = live;
  const dictionaries = await findDictionaryDamage(
    (statement) => queryRows(connection, statement),
    catalogs,
  );
  if (dictionaries.length > 0) return false;
  if (ranges.length === 0) return true;

  const rows = purchasesOf(source, watermark.organizationId, ranges);
  try {
    await inTransaction(connection, async () => {
      await stage(live, rows, signal);
      // A damaged row may have left its range: the ids of the staged rows find it.
      await writeStaged(live, join(ranges.map(inFile), ' or '));
    });
    return true;
  } finally {
    // The connection runs no other statement before the cursor is closed.
    await rows.return(undefined);
  }
}

/** The current purchases of some ranges. */
export async function* purchasesOf(
  source: pg.ClientBase,
  organizationId: bigint,
  ranges: readonly PurchaseRange[],
): AsyncGenerator<ChangedPurchase, void> {
  // One statement returns a purchase of two ranges once.
  const statement = sql`
    select ${raw(purchaseSelectList)}
    from purchases
    where organization_id = ${organizationId} and (${join(ranges.map(inPostgres), ' or ')})
    order by created_at, id`;
  for await (const row of stream(source, statement)) yield { id: row[0] as bigint, row };
}
