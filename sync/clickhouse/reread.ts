import type pg from 'pg';
import { join, raw } from 'sql-template-tag';
import type { ClickHouse } from '../../src/engines/clickhouse/client.ts';
import type { PurchaseRange } from '../verification/purchase-range.ts';
import { purchasesOf } from '../verification/reread.ts';
import { type Batch, insertSuperseded, type Written, writeChanges } from './apply-changes.ts';
import { inClickHouse } from './content.ts';
import type { Content } from './generations.ts';

/**
 * Adds to a batch what replaces the purchases of some ranges by those of Postgres. The content must
 * show all changes that `source`, a REPEATABLE READ transaction, sees.
 */
export async function rereadRanges(
  clickhouse: ClickHouse,
  source: pg.ClientBase,
  content: Content,
  batch: Batch,
  ranges: readonly PurchaseRange[],
  signal: AbortSignal,
): Promise<Written> {
  if (ranges.length === 0) return { purchases: 0, currencies: new Map() };
  const isInRange = join(ranges.map(inClickHouse), ' or ');
  await insertSuperseded(clickhouse, content, batch, isInRange, raw('true'), signal);
  const purchases = purchasesOf(source, content.watermark.organizationId, ranges);
  try {
    // A damaged row may have left its range: its id finds it.
    return await writeChanges(clickhouse, content, batch, purchases, signal, isInRange);
  } finally {
    // The connection runs no other statement before the cursor is closed.
    await purchases.return(undefined);
  }
}
