import type pg from 'pg';
import sql, { join, raw } from 'sql-template-tag';
import { queryRows } from '../../src/duckdb/connection.ts';
import { purchaseSelectList } from '../../src/engines/postgres/columns.ts';
import { createStaging, dropStaging, type StagedPurchase, stage } from '../apply/staging.ts';
import { insertStaged, isStaged } from '../apply/write-staged.ts';
import { stream } from '../capture/row-stream.ts';
import type { PurchaseFile } from '../files/purchase-file.ts';
import { changedSince } from './checksums.ts';
import { type DictionaryDamage, findDictionaryDamage } from './dictionaries.ts';
import { inFile, inPostgres, type PurchaseRange } from './purchase-range.ts';

export type Reread =
  | { readonly repairable: true; readonly purchases: number }
  /** Only a rebuild repairs dictionaries. */
  | { readonly repairable: false; readonly dictionaries: readonly DictionaryDamage[] };

/**
 * Replaces the live file's purchases of some ranges by those of Postgres, in one transaction.
 * The file must show all changes that `source`, a REPEATABLE READ transaction, sees: then the
 * watermark stays true. The caller publishes.
 */
export async function rereadRanges(
  live: PurchaseFile,
  source: pg.ClientBase,
  ranges: readonly PurchaseRange[],
  signal: AbortSignal,
): Promise<Reread> {
  const { connection, catalog } = live;
  const organizationId = await requireUpToDate(live, source);
  const dictionaries = await findDictionaryDamage(
    (statement) => queryRows(connection, statement),
    catalog,
  );
  if (dictionaries.length > 0) return { repairable: false, dictionaries };
  if (ranges.length === 0) return { repairable: true, purchases: 0 };

  await createStaging(connection);
  const rows = purchasesOf(source, organizationId, ranges);
  try {
    const { purchases } = await stage(connection, rows, signal);
    // A damaged row may have left its range: the ids of the staged rows find it.
    await insertStaged(live, join([...ranges.map(inFile), isStaged], ' or '));
    return { repairable: true, purchases };
  } finally {
    // The connection runs no other statement before the cursor is closed.
    await rows.return(undefined);
    await dropStaging(connection);
  }
}

/** Rejects if the file lacks changes: the ranges would be newer than the other purchases. */
async function requireUpToDate(
  { watermark }: PurchaseFile,
  source: pg.ClientBase,
): Promise<bigint> {
  if (watermark === null) throw new Error('the live file has no watermark');
  const { organizationId, snapshot } = watermark;
  const { rowCount } = await source.query(
    sql`${changedSince({ organizationId, since: snapshot })} limit 1`,
  );
  if (rowCount !== 0) throw new Error('the live file lacks changes');
  return organizationId;
}

async function* purchasesOf(
  source: pg.ClientBase,
  organizationId: bigint,
  ranges: readonly PurchaseRange[],
): AsyncGenerator<StagedPurchase, void> {
  // One statement returns a purchase of two ranges once.
  const statement = sql`
    select ${raw(purchaseSelectList)}
    from purchases
    where organization_id = ${organizationId} and (${join(ranges.map(inPostgres), ' or ')})
    order by created_at, id`;
  for await (const row of stream(source, statement)) yield { id: row[0] as bigint, row };
}
