import type pg from 'pg';
import type { Purchase } from '../../domain/purchase.ts';
import type { PurchaseFilters } from '../../domain/purchase-query.ts';
import { listPurchases } from './list.ts';

const batchSize = 2_000;

/**
 * All purchases that match, within one snapshot, as pages of the list: each statement
 * walks an index and ends soon, where one that streamed would run into the pool's timeout
 * with a slow reader.
 */
export async function* exportPurchases(
  connection: pg.ClientBase,
  organizationId: bigint,
  filters: PurchaseFilters,
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Purchase[]> {
  let last: bigint | undefined;
  for (let hasMore = true; hasMore; ) {
    signal?.throwIfAborted();
    const page = await listPurchases(connection, organizationId, {
      filters,
      limit: batchSize,
      ...(last === undefined ? {} : { startingAfter: last }),
    });
    const { purchases } = page;
    if (purchases.length > 0) yield purchases;
    last = purchases.at(-1)?.id;
    hasMore = page.hasMore;
  }
}
